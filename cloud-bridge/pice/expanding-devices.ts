import { Ewma } from '../../core/policy/estimate/ewma.ts'
import { isPresent, takesJobs } from '../../core/policy/fleet/presence.ts'
import type { LatestTelemetry } from '../../core/protocol/http/devices.ts'
import type { JobKind } from '../../core/protocol/jobs.ts'
import type { DeviceState } from '../../core/protocol/messages.ts'

const kind: JobKind = 'pice.expand'
const profileKind: JobKind = 'profile'

/** After a failure a device gets no sketches for this long, twice as long after each further one in a row. */
const restMs = { base: 1_000, max: 60_000 }
/** What a sketch with its question, and an expanded sentence, are about in bytes. */
const sketchBytes = 2_048
const sentenceBytes = 512

interface Present {
  readonly canProfile: boolean
  takesJobs: boolean
}

/** A device's failures since it last expanded something. */
interface Rest {
  readonly failures: number
  readonly untilMs: number
}

/** The devices that are connected and expand sketches. */
export class ExpandingDevices {
  readonly #present = new Map<string, Present>()
  readonly #rests = new Map<string, Rest>()
  readonly #currents = new Map<string, string>()
  /** Time in which each has accepted sketches, in seconds. */
  readonly #acceptS = new Map<string, Ewma>()
  readonly #telemetryOf: (device: string) => LatestTelemetry | null

  constructor(telemetryOf: (device: string) => LatestTelemetry | null) {
    this.#telemetryOf = telemetryOf
  }

  onState(device: string, { state, jobs = [] }: DeviceState): void {
    if (isPresent(state) && jobs.includes(kind))
      this.#present.set(device, { canProfile: jobs.includes(profileKind), takesJobs: takesJobs(state) })
    else this.#present.delete(device)
  }

  clear(): void {
    this.#present.clear()
  }

  /** Whether the device receives messages: it may be draining. */
  isPresent(device: string): boolean {
    return this.#present.has(device)
  }

  takesJobs(device: string): boolean {
    return this.#present.get(device)?.takesJobs ?? false
  }

  canProfile(device: string): boolean {
    return this.#present.get(device)?.canProfile ?? false
  }

  /** Whether no device takes jobs. */
  get isEmpty(): boolean {
    for (const { takesJobs } of this.#present.values()) if (takesJobs) return false
    return true
  }

  /** Devices that take jobs. */
  list(): string[] {
    return [...this.#present].flatMap(([device, { takesJobs }]) => (takesJobs ? [device] : []))
  }

  isResting(device: string, nowMs: number): boolean {
    return (this.#rests.get(device)?.untilMs ?? Number.NEGATIVE_INFINITY) > nowMs
  }

  onFailure(device: string, nowMs: number): void {
    const failures = (this.#rests.get(device)?.failures ?? 0) + 1
    this.#rests.set(device, { failures, untilMs: nowMs + Math.min(restMs.max, restMs.base * 2 ** (failures - 1)) })
  }

  /** @param model that it used last */
  onSuccess(device: string, model: string | undefined): void {
    this.#rests.delete(device)
    if (model !== undefined) this.#currents.set(device, model)
  }

  /** Name of the small model that is open there, as far as is known. */
  currentOf(device: string): string | undefined {
    return this.#currents.get(device) ?? this.#telemetryOf(device)?.bundles?.slm?.name
  }

  /** @param seconds from the submission of a job until the bridge had the device's acceptance */
  onAccepted(device: string, seconds: number): void {
    const mean = this.#acceptS.get(device) ?? new Ewma()
    mean.record(seconds)
    this.#acceptS.set(device, mean)
  }

  /**
   * Δ(r): network time of a sketch to the device and of a sentence back, as it was for earlier ones; before the first by the rates
   * of its link, 0 where these are not measured.
   */
  networkSOf(device: string): number {
    const measured = this.#acceptS.get(device)?.value
    if (measured !== undefined) return measured
    const { rttMs = 0, upBytesPerS = 0, downBytesPerS = 0 } = this.#telemetryOf(device)?.link ?? {}
    const transferS = (bytes: number, bytesPerS: number | null) => (bytesPerS ? bytes / bytesPerS : 0)
    return (rttMs ?? 0) / 1_000 + transferS(sketchBytes, downBytesPerS) + transferS(sentenceBytes, upBytesPerS)
  }
}
