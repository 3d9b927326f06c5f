import { z } from 'zod'
import { DeviceTelemetry, TelemetryDelta } from '../../core/wire/protocol/messages.ts'
import { type Reading, readJson, readMessage, reasonOf } from '../../core/wire/protocol/read-message.ts'
import { expectedAfter, type Fields, isFields, withChanges } from '../../core/wire/protocol/telemetry-delta.ts'
import { v } from '../../core/wire/protocol/version.ts'
import { packSample } from './packed-sample.ts'

/** A sample that has arrived. */
export interface ReadSample {
  readonly telemetry: DeviceTelemetry
  /** Later deltas build on it. */
  readonly isBase: boolean
  /** As text; undefined: it is no delta, or its difference does not tell it. */
  readonly packed?: { readonly base: DeviceTelemetry; readonly difference: string } | undefined
}

export type TelemetryReading =
  | Reading<ReadSample>
  /** A delta from a sample that has not arrived, or was replaced. */
  | { readonly kind: 'baseless' }

/** The last sample of a device that deltas may build on. */
interface Base {
  readonly birth: number
  readonly seq: number
  readonly atMs: number
  readonly bytes: number
  readonly telemetry: DeviceTelemetry
  /** Sections that this release cannot read: what later changes of them mean is unknown. */
  readonly unreadable: ReadonlySet<string>
}

/** A sample or a delta. */
const Envelope = z.looseObject({ v })

/** The fields that a delta may change. */
const changeable = new Map<string, z.ZodType>(
  Object.entries(DeviceTelemetry.shape).filter(([name]) => !['v', 'at', 'birth', 'seq'].includes(name)),
)

/** Reads telemetry: complete samples, and deltas, from which it rebuilds the samples. */
export class TelemetryReader {
  readonly #maxBytes: number
  readonly #bases = new Map<string, Base>()

  /** @param maxBytes of a sample; also of a delta with the sample that it builds on */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** @param mayHold whether the bridge may keep a sample of this device in memory */
  read(device: string, payload: Uint8Array, mayHold: boolean): TelemetryReading {
    if (payload.byteLength > this.#maxBytes) return this.#tooLarge(payload.byteLength)
    const envelope = readMessage(Envelope, payload)
    if (envelope.kind === 'unreadable') return envelope
    if (envelope.message.base !== undefined) return this.#rebuild(device, envelope.message, payload.byteLength)
    const read = readJson(DeviceTelemetry, envelope.message)
    if (read.kind === 'unreadable') return read
    const { seq, ...telemetry } = read.message
    if (seq === undefined) return { kind: 'message', message: { telemetry, isBase: false } }
    const atMs = Date.parse(telemetry.at)
    if (mayHold) {
      const isUnreadable = (name: string) => isFields(envelope.message[name]) && (telemetry as Fields)[name] === undefined
      const unreadable = new Set(Object.keys(envelope.message).filter(isUnreadable))
      this.#bases.set(device, { birth: telemetry.birth, seq, atMs, bytes: payload.byteLength, telemetry, unreadable })
    }
    return { kind: 'message', message: { telemetry, isBase: true } }
  }

  /** The samples of a device are of no more use. */
  forget(device: string): void {
    this.#bases.delete(device)
  }

  #rebuild(device: string, message: Fields, bytes: number): TelemetryReading {
    const read = readJson(TelemetryDelta, message)
    if (read.kind === 'unreadable') return read
    const { at, birth, base: seq, set } = read.message
    const base = this.#bases.get(device)
    if (base?.birth !== birth || base.seq !== seq) return { kind: 'baseless' }
    if (base.bytes + bytes > this.#maxBytes) return this.#tooLarge(base.bytes + bytes)
    const expected = expectedAfter(base.telemetry, (Date.parse(at) - base.atMs) / 1_000) as DeviceTelemetry
    const telemetry: DeviceTelemetry & Record<string, unknown> = { ...expected, at, birth }
    // Only what has changed is checked again, and the rest is shared with the base.
    for (const [name, change] of Object.entries(set)) {
      const schema = base.unreadable.has(name) ? undefined : changeable.get(name)
      if (!schema) continue
      const then = telemetry[name]
      const read = schema.safeParse(isFields(then) && isFields(change) ? withChanges(then, change) : change)
      if (!read.success) return { kind: 'unreadable', code: 'MESSAGE_INVALID', reason: reasonOf(read.error, [name]) }
      telemetry[name] = read.data
    }
    const difference = packSample(base.telemetry, telemetry)
    const packed = difference === undefined ? undefined : { base: base.telemetry, difference }
    return { kind: 'message', message: { telemetry, isBase: false, packed } }
  }

  #tooLarge(bytes: number): TelemetryReading {
    return { kind: 'unreadable', code: 'MESSAGE_INVALID', reason: `${bytes} bytes; the limit is ${this.#maxBytes}` }
  }
}
