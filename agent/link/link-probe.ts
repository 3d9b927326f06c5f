import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Random } from '../../core/kit/base/random.ts'
import type { LinkRates } from '../../core/policy/estimate/link-rates.ts'
import { nextProbeStep, type ProbeLimits, type ProbeState } from '../../core/policy/link/probe.ts'
import { headerBytes } from '../../core/wire/protocol/frame.ts'
import { decodeProbe, encodeProbe, type Probe } from '../../core/wire/protocol/probe.ts'

/**
 * Payload of a probe. With all headers it fits into TCP's initial window of ten segments (RFC 6928), to which an idle
 * connection returns (RFC 5681 §4.1). So the round trips of slow start do not make a fast link look slow.
 */
export const probeBytes = 12 * 1024
/** A probe is two exchanges, 24 KiB up and 12 KiB down: some 3 MiB a day on an idle link. */
export const probeLimits: ProbeLimits = { quietMs: 5_000, staleMs: 15 * 60_000, everyMs: 5 * 60_000 }
const replyTimeoutMs = 30_000

export interface LinkProbeOptions {
  readonly rates: LinkRates
  readonly clock: Clock
  readonly random: Random
  readonly state: () => Pick<ProbeState, 'sessions' | 'sentMs'>
  readonly send: (frame: Uint8Array) => void
}

/** An exchange without its reply. */
interface PendingExchange {
  readonly seq: number
  readonly want: number
  readonly bytesUp: number
  readonly sentMs: number
  /** Aborted when the reply has arrived, or the probe is abandoned. */
  readonly done: AbortController
  answered: boolean
}

/** Measures the rates of an idle connection. */
export class LinkProbe {
  readonly #options: LinkProbeOptions
  #seq = 0
  #probedMs: number | undefined
  #pending: PendingExchange | undefined

  constructor(options: LinkProbeOptions) {
    this.#options = options
  }

  /** Probes when due, until the connection has closed. */
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

  /** Stops the probe in progress, without a measurement: a session is being opened. */
  abandon(): void {
    this.#pending?.done.abort()
    this.#pending = undefined
  }

  /** Handles a reply; one without a pending exchange is dropped. @throws BrimError FRAME_INVALID */
  receive(bytes: Uint8Array): void {
    const { rates, clock } = this.#options
    const { seq, payload } = decodeProbe(bytes)
    const pending = this.#pending
    if (pending?.seq !== seq) return
    if (payload.byteLength !== pending.want)
      throw new BrimError('FRAME_INVALID', `the bridge answered a probe with ${payload.byteLength} bytes, not ${pending.want}`)
    const { bytesUp, sentMs } = pending
    const bytesDown = headerBytes + payload.byteLength
    rates.recordProbe({ bytesUp, bytesDown, sentS: sentMs / 1_000, answeredS: clock.nowMs() / 1_000 })
    pending.answered = true
    pending.done.abort()
  }

  /** One exchange with an empty reply measures β_up; then a second one measures β_down. */
  async #probe(ended: AbortSignal): Promise<void> {
    const { clock, random, state } = this.#options
    this.#probedMs = clock.nowMs()
    // Random bytes: a compressing tunnel would make the link look faster.
    const payload = Uint8Array.from({ length: probeBytes }, () => random.next() * 256)
    if (!(await this.#exchange({ want: 0, payload }, ended)) || state().sessions > 0) return
    await this.#exchange({ want: probeBytes, payload }, ended)
  }

  /** @returns whether it was answered */
  async #exchange({ want, payload }: Omit<Probe, 'seq'>, ended: AbortSignal): Promise<boolean> {
    const { clock, send } = this.#options
    this.#seq += 1
    const frame = encodeProbe({ seq: this.#seq, want, payload })
    const done = new AbortController()
    const pending: PendingExchange = {
      seq: this.#seq,
      want,
      bytesUp: frame.byteLength,
      sentMs: clock.nowMs(),
      done,
      answered: false,
    }
    this.#pending = pending
    send(frame)
    await clock.sleep(replyTimeoutMs, AbortSignal.any([done.signal, ended])).catch(() => {})
    this.#pending = undefined
    return pending.answered
  }
}
