import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Random } from '../../core/base/random.ts'
import type { LinkRates } from '../../core/policy/estimate/link-rates.ts'
import { nextProbeStep, type ProbeLimits, type ProbeState } from '../../core/policy/link/probe.ts'
import { headerBytes } from '../../core/protocol/frame.ts'
import { decodeProbe, encodeProbe, type Probe } from '../../core/protocol/probe.ts'

/**
 * Payload of a probe: with all headers it fits into TCP's initial window of ten segments (RFC 6928), which a connection
 * falls back to when it was idle (RFC 5681 §4.1), so that no round trip of slow start is taken for a slow link.
 */
export const probeBytes = 12 * 1024
/** Two exchanges a probe, 24 KiB up and 12 KiB down: some 3 MiB a day on a link that is never used. */
export const probeLimits: ProbeLimits = { quietMs: 5_000, staleMs: 15 * 60_000, everyMs: 5 * 60_000 }
/** An answer that takes longer is not waited for. */
const answerTimeoutMs = 30_000

export interface LinkProbeOptions {
  readonly rates: LinkRates
  readonly clock: Clock
  readonly random: Random
  readonly state: () => Pick<ProbeState, 'sessions' | 'sentMs'>
  readonly send: (frame: Uint8Array) => void
}

interface Waiting {
  readonly seq: number
  readonly want: number
  readonly bytesUp: number
  readonly sentMs: number
  readonly over: AbortController
  answered: boolean
}

/** Measures the rates of a connection while nobody uses it. Sockets are the connection's business. */
export class LinkProbe {
  readonly #options: LinkProbeOptions
  #seq = 0
  #probedMs: number | undefined
  #waiting: Waiting | undefined

  constructor(options: LinkProbeOptions) {
    this.#options = options
  }

  /** Until the connection has ended. */
  async run(ended: AbortSignal): Promise<void> {
    const { clock, rates, state } = this.#options
    while (!ended.aborted) {
      const measuredMs = rates.measuredS === undefined ? undefined : rates.measuredS * 1_000
      const step = nextProbeStep({ ...state(), measuredMs, probedMs: this.#probedMs }, probeLimits, clock.nowMs())
      switch (step.kind) {
        case 'wait':
          await clock.sleep(step.ms, ended).catch(() => {})
          break
        case 'probe':
          await this.#probe(ended)
          break
        default:
          step satisfies never
      }
    }
  }

  /** Somebody opens a session: the rest of the probe is not sent, and what is under way measures nothing. */
  abandon(): void {
    this.#waiting?.over.abort()
    this.#waiting = undefined
  }

  /** An answer; what answers nothing that is waited for is dropped. @throws BrimError FRAME_INVALID */
  receive(bytes: Uint8Array): void {
    const { rates, clock } = this.#options
    const { seq, payload } = decodeProbe(bytes)
    const waiting = this.#waiting
    if (waiting?.seq !== seq) return
    if (payload.byteLength !== waiting.want)
      throw new BrimError('FRAME_INVALID', `the bridge answered a probe with ${payload.byteLength} bytes, not ${waiting.want}`)
    const { bytesUp, sentMs } = waiting
    const bytesDown = headerBytes + payload.byteLength
    rates.recordProbe({ bytesUp, bytesDown, sentS: sentMs / 1_000, answeredS: clock.nowMs() / 1_000 })
    waiting.answered = true
    waiting.over.abort()
  }

  /** One exchange with nothing to bring back, for β_up; with that known another for β_down. */
  async #probe(ended: AbortSignal): Promise<void> {
    const { clock, random, state } = this.#options
    this.#probedMs = clock.nowMs()
    // Random: a tunnel that compresses would make a fast link of zeros.
    const payload = Uint8Array.from({ length: probeBytes }, () => random.next() * 256)
    if (!(await this.#exchange({ want: 0, payload }, ended)) || state().sessions > 0) return
    await this.#exchange({ want: probeBytes, payload }, ended)
  }

  /** @returns whether it was answered */
  async #exchange({ want, payload }: Omit<Probe, 'seq'>, ended: AbortSignal): Promise<boolean> {
    const { clock, send } = this.#options
    this.#seq += 1
    const frame = encodeProbe({ seq: this.#seq, want, payload })
    const over = new AbortController()
    const waiting: Waiting = {
      seq: this.#seq,
      want,
      bytesUp: frame.byteLength,
      sentMs: clock.nowMs(),
      over,
      answered: false,
    }
    this.#waiting = waiting
    send(frame)
    await clock.sleep(answerTimeoutMs, AbortSignal.any([over.signal, ended])).catch(() => {})
    this.#waiting = undefined
    return waiting.answered
  }
}
