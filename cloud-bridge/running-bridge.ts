import type { Logger } from '../core/kit/base/logger.ts'
import type { ShownComputing } from '../core/wire/protocol/computing.ts'

export interface Bridge {
  readonly mqttUrl: string
  readonly httpUrl: string
  readonly dataUrl: string
  /** Of the bundles that the bridge serves, as they were given. */
  readonly modelIds: readonly string[]
  /** What computes each of them. */
  readonly computing: readonly ShownComputing[]
  /** SHA-256 of the public key of the TLS certificate: invitations and logins hold the bridge to it. */
  readonly pin: string | undefined
  /** Whether clients that connect now must prove their identity. */
  readonly auth: boolean
  readonly logger: Logger
  /** Names of loops that make no progress, although some is due. */
  readonly stalled: readonly string[]
  /** The time of day that deadlines of jobs are compared with, UTC ms. */
  wallMs(): number
  /** One line: what the bridge does. */
  readonly status: string
  /**
   * Publishes the state `draining`, and refuses new sessions and answers: devices and clients go elsewhere.
   * @returns resolves when none is in progress
   */
  drain(): Promise<void>
  /** Aborted, as by SIGTERM, when an operator asks this process to end. Absent: that is not possible. */
  readonly ending?: AbortSignal | undefined
  /** Rejects when this process cannot go on. Absent: it can. */
  readonly failed?: Promise<void> | undefined
  /** Publishes the state `disconnected`, ends all HAT sessions, and closes everything. */
  close(): Promise<void>
}
