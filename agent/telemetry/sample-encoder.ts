import type { DeadBands, Measurements } from '../../core/policy/telemetry/dead-bands.ts'
import { settled } from '../../core/policy/telemetry/resolution.ts'
import type { DeviceTelemetry, TelemetryDelta } from '../../core/wire/protocol/messages.ts'
import { changesOf, expectedAfter, type Fields, withoutUnknown } from '../../core/wire/protocol/telemetry-delta.ts'

/** Interval of complete samples: a bridge that has lost one lacks nothing for longer. */
const fullEveryMs = 10 * 60_000

export interface SampleMoment {
  /** Monotonic. */
  readonly ms: number
  /** UTC, ISO 8601. */
  readonly at: string
  readonly clockIsSet: boolean
}

/** A complete sample that bridges have received. */
interface Base {
  readonly seq: number
  readonly receivers: string
  readonly moment: SampleMoment
  readonly sample: Fields
}

/** Writes the telemetry messages for the bridges of one broker: complete samples, and deltas from the last of these. */
export class SampleEncoder {
  readonly #birth: number
  readonly #deadBands: DeadBands
  #seq = 0
  #base: Base | undefined

  constructor(birth: number, deadBands: DeadBands) {
    this.#birth = birth
    this.#deadBands = deadBands
  }

  /** Whether these bridges need a complete sample, without waiting for the next report. */
  needsFull(receivers: string | undefined): boolean {
    return receivers !== undefined && this.#base?.receivers !== receivers
  }

  /** @param receivers see `ReportLink.deltaReceivers` */
  encode(measured: Measurements, receivers: string | undefined, moment: SampleMoment): string {
    if (receivers === undefined) {
      this.#base = undefined
      return JSON.stringify({ ...this.#envelope(moment), ...sampleOf(settled(measured, undefined, this.#deadBands), moment) })
    }
    const base = this.#base
    const isUsable = base && base.receivers === receivers && moment.ms - base.moment.ms < fullEveryMs
    return (isUsable ? this.#delta(base, measured, moment) : undefined) ?? this.#full(measured, receivers, moment)
  }

  #full(measured: Measurements, receivers: string, moment: SampleMoment): string {
    const sample = sampleOf(settled(measured, undefined, this.#deadBands), moment)
    this.#seq += 1
    this.#base = { seq: this.#seq, receivers, moment, sample }
    return JSON.stringify({ ...this.#envelope(moment), seq: this.#seq, ...withoutUnknown(sample) })
  }

  /** @returns undefined if a complete sample is needed, or hardly longer */
  #delta({ seq, moment: baseMoment, sample }: Base, measured: Measurements, moment: SampleMoment): string | undefined {
    const expected = expectedAfter(sample, (Date.parse(moment.at) - Date.parse(baseMoment.at)) / 1_000)
    const set = changesOf(expected, sampleOf(settled(measured, expected as unknown as Measurements, this.#deadBands), moment))
    if (set === undefined) return undefined
    const delta = JSON.stringify({ ...this.#envelope(moment), base: seq, set } satisfies TelemetryDelta)
    return delta.length < JSON.stringify(sample).length / 2 ? delta : undefined
  }

  #envelope = ({ at }: SampleMoment) => ({ v: 1 as const, at, birth: this.#birth })
}

/** What is left of a message without its envelope. */
const sampleOf = (
  measured: Measurements,
  { clockIsSet }: SampleMoment,
): Omit<DeviceTelemetry, 'v' | 'at' | 'birth'> & Fields => ({
  clockIsSet,
  ...measured,
})
