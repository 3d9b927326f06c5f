/** How long a device whose session was refused waits before it asks again. */
export const sessionRetryMs = 1_000
/** How long a new session waits for memory that others hold; the device gives its request up after 5 s. */
export const sessionWaitMs = 3_000

export interface SessionLoad {
  /** Sessions of the device that are open or being opened. */
  readonly openSessions: number
  readonly maxSessions: number
  readonly isClosing: boolean
}

/** @returns why the device gets no further session; undefined: it may open one */
export function sessionRefusal({ openSessions, maxSessions, isClosing }: SessionLoad): string | undefined {
  if (isClosing) return 'the bridge is shutting down'
  if (openSessions >= maxSessions)
    return `the device has ${openSessions} open sessions, the maximum of this bridge (limit deviceSessions)`
  return undefined
}
