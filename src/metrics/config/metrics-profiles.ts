/** Which versions of vLLM's metrics page are known? By minor number; the last is the one that is stood in for. */
export const PROFILES = [6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 22, 26, 30, 33] as const;
export type MetricsProfile = (typeof PROFILES)[number];
export const CURRENT: MetricsProfile = 33;

export const profileName = (profile: MetricsProfile) => `vllm-0.${profile}`;

/** vLLM shows what a version has hidden if it is asked for the minor version right before, as `0.11`, and for no other. */
export function showsHidden(profile: MetricsProfile, version: string | undefined): boolean {
  return version !== undefined && /^0*0\.0*(\d+)/.exec(version)?.[1] === `${profile - 1}`;
}
