import { BrimError } from './errors.ts'

/** Why `Io.signal` is aborted by SIGTERM: work in progress may end first. After Ctrl-C it is canceled. */
export const terminated = new BrimError('CANCELED', 'terminated')

/** Whether the process was asked to end what it has begun, and then itself. */
export const isTermination = (signal: AbortSignal): boolean => signal.reason === terminated
