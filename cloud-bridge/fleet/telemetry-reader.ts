import { z } from 'zod'
import { DeviceTelemetry, TelemetryDelta } from '../../core/protocol/messages.ts'
import { type Reading, readJson, readMessage } from '../../core/protocol/read-message.ts'
import { expectedAfter, type Fields, isFields, withChanges } from '../../core/protocol/telemetry-delta.ts'
import { v } from '../../core/protocol/version.ts'

/** A sample that has arrived. */
export interface ReadSample {
  readonly telemetry: DeviceTelemetry
  /** Later deltas build on it. */
  readonly isBase: boolean
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
    const { v, at, birth, base: seq, set } = read.message
    const base = this.#bases.get(device)
    if (base?.birth !== birth || base.seq !== seq) return { kind: 'baseless' }
    if (base.bytes + bytes > this.#maxBytes) return this.#tooLarge(base.bytes + bytes)
    // Only what has changed is checked again, and the rest is shared with the base.
    const { v: _, seq: __, ...expected } = expectedAfter(base.telemetry, (Date.parse(at) - base.atMs) / 1_000)
    const changed = Object.fromEntries(
      Object.entries(set)
        .filter(([name]) => !base.unreadable.has(name))
        .map(([name, change]) => [name, withChanges(expected, { [name]: change })[name]]),
    )
    const { link, speed } = base.telemetry
    const rebuilt = readJson(DeviceTelemetry, { link, speed, ...changed, v, at, birth })
    if (rebuilt.kind === 'unreadable') return rebuilt
    const { seq: ___, ...checked } = rebuilt.message
    return { kind: 'message', message: { telemetry: { ...expected, ...checked } as DeviceTelemetry, isBase: false } }
  }

  #tooLarge(bytes: number): TelemetryReading {
    return { kind: 'unreadable', code: 'MESSAGE_INVALID', reason: `${bytes} bytes; the limit is ${this.#maxBytes}` }
  }
}
