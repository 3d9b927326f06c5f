import { graphKey, type PartManifest, type PartName, type SlotCount, slotCounts } from '../bundle/manifest.ts'
import type { GraphForm } from '../bundle/part-graph.ts'
import { slotsFor } from './part-packing.ts'
import type { EngineSession, Runtime } from './runtime.ts'
import type { PartWeights } from './weights.ts'

export interface PartSource {
  readonly runtime: Runtime
  readonly folder: string
  readonly name: PartName
  readonly manifest: PartManifest
  /** @throws BrimError BUNDLE_INVALID, BUNDLE_CORRUPT */
  readonly graph: (slots: SlotCount, form: GraphForm) => Uint8Array | Promise<Uint8Array>
  readonly weights: PartWeights
  /** The graphs read attention's rows by `spread` and `keep`, so that they can be padded. Not before schema 3. */
  readonly padsAttention: boolean
  /**
   * MatMulNBits has a special kernel for one row, which sums in another order, and uses it where its blocks of rows, of even size,
   * leave one: at accuracy level 1, and at level 4 with blocks of more than 32 weights. With an even number of rows the result does not depend on the rest of the step.
   */
  readonly needsEvenRows: boolean
  readonly threads: number
  /** Query heads that share keys and values, where the part has `grouped` graphs; else undefined. */
  readonly groupedHeads: number | undefined
}

/** The engine sessions of one part over one set of weights: one per slot count and form of its graph, created when needed. */
export class PartSessions {
  readonly #source: PartSource
  readonly #offered: readonly SlotCount[]
  /** By slots and form. */
  readonly #sessions = new Map<string, Promise<EngineSession>>()

  constructor(source: PartSource) {
    this.#source = source
    this.#offered = slotCounts.filter((slots) => graphKey(slots, false) in source.manifest.graphs)
  }

  /**
   * Opens the engine session with enough slots for a number of sequences.
   * @throws RangeError if no graph has enough slots; BrimError BUNDLE_CORRUPT, RUNTIME_FAILED, PROVIDER_UNAVAILABLE, OUT_OF_MEMORY
   */
  async open(sequences: number, form: GraphForm = 'line'): Promise<{ session: EngineSession; slots: number }> {
    const slots = slotsFor(sequences, this.#offered)
    const key = `${slots} ${form}`
    const opening = this.#sessions.get(key) ?? this.#load(slots, form)
    this.#sessions.set(key, opening)
    try {
      return { session: await opening, slots }
    } catch (error) {
      this.#sessions.delete(key)
      throw error
    }
  }

  async release(): Promise<void> {
    const sessions = await Promise.allSettled(this.#sessions.values())
    this.#sessions.clear()
    await Promise.all(sessions.map((session) => (session.status === 'fulfilled' ? session.value.release() : undefined)))
  }

  async #load(slots: SlotCount, form: GraphForm): Promise<EngineSession> {
    const { runtime, folder, graph, weights, threads } = this.#source
    const model = await graph(slots, form)
    const options = { threads, weights: weights.tensors, externalFolder: folder }
    return weights.pack(() => runtime.session(model, options))
  }
}
