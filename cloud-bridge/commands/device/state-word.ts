/** Explains the words, for help texts. */
export const stateNotes =
  'States: ready, draining, init (starting), disconnected (shut down, or "off"), lost (vanished), never (enrolled, has\n' +
  'not connected), pending (waits for "brim device approve"), revoked.'
