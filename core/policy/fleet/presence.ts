import type { DeviceState } from '../../wire/protocol/messages.ts'

type State = DeviceState['state']

/** Whether the device receives messages. */
export const isPresent = (state: State): boolean => state === 'ready' || state === 'draining'

/** Whether the device takes new jobs; a draining device finishes the jobs it has. */
export const takesJobs = (state: State): boolean => state === 'ready'

/** Whether the device has a connection and therefore publishes heartbeats. */
export const isConnected = (state: State): boolean => state !== 'lost' && state !== 'disconnected'

/** Missed heartbeats in a row that make a device lost. Brokers wait one and a half keepalives. */
const maxMissedHeartbeats = 3

/**
 * Whether a device has been silent for too long.
 * @param heartbeatS its announced interval; undefined: it announces none and is never expired
 */
export const hasMissedHeartbeats = (lastStateMs: number, heartbeatS: number | undefined, nowMs: number): boolean =>
  heartbeatS !== undefined && nowMs - lastStateMs > maxMissedHeartbeats * heartbeatS * 1_000
