/** Times in UTC ms. */
export interface KeyDates {
  /** When the device's agent began to use the key, and said that it renews it; null: it has not said so. */
  readonly sinceMs: number | null
  /** Null: the key does not expire. */
  readonly expiresMs: number | null
}

export interface KeyValidity {
  /** 0: keys do not expire. */
  readonly validMs: number
}

/** A key is renewed between these parts of its validity: devices that enrolled in one hour do not renew in one hour. */
const [renewFrom, renewTo] = [2 / 3, 3 / 4]

/**
 * The dates of a key from this login on. The validity begins with the first login of an agent that renews keys, so the key of
 * an agent of an earlier release does not expire. Once it has begun, no login without that promise ends it.
 * @param renewsKey whether the agent says that it renews keys
 */
export function datesAtLogin(dates: KeyDates, renewsKey: boolean, { validMs }: KeyValidity, nowMs: number): KeyDates {
  if (validMs === 0) return { ...dates, expiresMs: null }
  if (dates.expiresMs !== null || !renewsKey) return dates
  return { sinceMs: dates.sinceMs ?? nowMs, expiresMs: nowMs + validMs }
}

export const hasExpired = ({ expiresMs }: KeyDates, nowMs: number): boolean => expiresMs !== null && nowMs >= expiresMs

/**
 * A validity that was shortened since is counted from the beginning of the key, but expires no key earlier than was promised.
 * @param uniform in [0, 1), the same at every login with one key
 * @returns ms until the agent renews the key, 0 when it is due; undefined: it does not expire
 */
export function renewKeyInMs(
  { sinceMs, expiresMs }: KeyDates,
  { validMs }: KeyValidity,
  uniform: number,
  nowMs: number,
): number | undefined {
  if (sinceMs === null || expiresMs === null || validMs === 0) return undefined
  const lifetimeMs = Math.min(validMs, expiresMs - sinceMs)
  return Math.max(0, sinceMs + lifetimeMs * (renewFrom + uniform * (renewTo - renewFrom)) - nowMs)
}
