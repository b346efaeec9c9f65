/** Reads SETTINGS frames: RFC 9113, section 6.5. */
import { ConnectionError, FRAME_BYTES_MOST, Http2Code, readUint32, SettingId, WINDOW_MOST } from "./frames.ts";

/** Largest number of entries in one frame, as in nghttp2 (`NGHTTP2_DEFAULT_MAX_SETTINGS`). The RFC defines six settings. */
export const SETTINGS_MOST = 32;
const ENTRY_BYTES = 6;

export const windowTooLarge = (): ConnectionError =>
  new ConnectionError(Http2Code.FlowControl, `a window is larger than ${WINDOW_MOST}`);

/**
 * Checks every entry of a frame. Returns the initial window of streams, or null if the frame does not set it. If it is set twice,
 * only the last value counts, because nothing is sent in between. Throws a `ConnectionError`.
 */
export function readSettings(payload: Buffer): number | null {
  if (payload.length % ENTRY_BYTES !== 0)
    throw new ConnectionError(Http2Code.FrameSize, `SETTINGS are ${payload.length} bytes, must be a multiple of 6`);
  if (payload.length > SETTINGS_MOST * ENTRY_BYTES)
    throw new ConnectionError(Http2Code.Calm, `SETTINGS have more than ${SETTINGS_MOST} entries`);
  let window: number | null = null;
  for (let at = 0; at < payload.length; at += ENTRY_BYTES) {
    const id = (payload[at]! << 8) | payload[at + 1]!;
    const value = readUint32(payload, at + 2);
    check(id, value);
    if (id === SettingId.Window) window = value;
  }
  return window;
}

function check(id: number, value: number): void {
  if (id === SettingId.Push && value > 1)
    throw new ConnectionError(Http2Code.Protocol, `ENABLE_PUSH is ${value}, must be 0 or 1`);
  if (id === SettingId.Window && value > WINDOW_MOST) throw windowTooLarge();
  if (id === SettingId.FrameSize && (value < FRAME_BYTES_MOST || value >= 2 ** 24))
    throw new ConnectionError(
      Http2Code.Protocol,
      `MAX_FRAME_SIZE is ${value}, must be ${FRAME_BYTES_MOST} to ${2 ** 24 - 1}`,
    );
}
