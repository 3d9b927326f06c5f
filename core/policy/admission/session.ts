/** How long a device whose session was refused waits before it asks again. */
export const sessionRetryMs = 1_000

export interface SessionLoad {
  /** Sessions of the connection that are open or being opened. */
  readonly openSessions: number
  readonly maxSessions: number
  readonly isClosing: boolean
}

/** @returns why the connection gets no further session; undefined: it may open one */
export function sessionRefusal({ openSessions, maxSessions, isClosing }: SessionLoad): string | undefined {
  if (isClosing) return 'the bridge is shutting down'
  if (openSessions >= maxSessions) return `the connection has ${openSessions} open sessions, the maximum of this bridge`
  return undefined
}
