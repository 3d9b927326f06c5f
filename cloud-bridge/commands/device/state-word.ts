import type { Device } from '../../../core/protocol/http/devices.ts'

/** A device's state in one word: its enrolment where that keeps it from connecting, else its connection. */
export function stateWord({ state, identity }: Pick<Device, 'state' | 'identity'>): string {
  return identity !== null && identity.status !== 'approved' ? identity.status : (state ?? 'never')
}

/** Explains the words, for help texts. */
export const stateNotes =
  'States: ready, draining, init (starting), disconnected (shut down, or "off"), lost (vanished), never (enrolled, has\n' +
  'not connected), pending (waits for "brim device approve"), revoked.'
