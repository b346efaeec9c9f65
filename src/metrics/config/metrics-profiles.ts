/** Versions of vLLM whose metrics pages are known, by minor number. The last is the version that Understudy stands in for. */
export const VERSION_PROFILES = [6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 22, 26, 30, 33] as const;
export type VersionProfile = (typeof VERSION_PROFILES)[number];
export const CURRENT: VersionProfile = 33;

/** The page of vLLM 0.33's front end in Rust. */
export const RUST = "rs";
export const PROFILES = [...VERSION_PROFILES, RUST] as const;
export type MetricsProfile = (typeof PROFILES)[number];

export const profileName = (profile: MetricsProfile) => (profile === RUST ? "vllm-rs" : `vllm-0.${profile}`);

/**
 * Returns true if hidden metrics are shown. vLLM shows those that a version hides only if the option names the previous
 * minor version, such as `0.11`.
 */
export function showsHidden(profile: MetricsProfile, version: string | undefined): boolean {
  if (profile === RUST) return false;
  return version !== undefined && /^0*0\.0*(\d+)/.exec(version)?.[1] === `${profile - 1}`;
}
