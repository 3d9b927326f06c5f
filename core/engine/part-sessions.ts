import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BrimError } from '../base/errors.ts'
import type { PartManifest, PartName } from '../model/manifest.ts'
import { slotsFor } from './part-packing.ts'
import type { Runtime, Session, Tensor } from './runtime.ts'

export interface PartSource {
  readonly runtime: Runtime
  /** The bundle. */
  readonly folder: string
  readonly name: PartName
  readonly manifest: PartManifest
  readonly weights: ReadonlyMap<string, Tensor>
  /**
   * MatMulNBits at accuracy level 1 has a kernel of its own for one row, which sums in another order than the one for
   * several: a second row keeps results independent of what else is in the step.
   */
  readonly neverOneRow: boolean
  readonly threads: number
  readonly providers: readonly string[]
}

/** The graphs of one part, one per slot count, compiled when first needed, over one set of weights. */
export class PartSessions {
  readonly #source: PartSource
  readonly #offered: readonly number[]
  readonly #sessions = new Map<number, Promise<Session>>()

  constructor(source: PartSource) {
    this.#source = source
    this.#offered = Object.keys(source.manifest.graphs).map(Number)
  }

  /**
   * The session for so many sequences, and how many slots it has.
   * @throws RangeError when no graph has as many; BrimError BUNDLE_CORRUPT, RUNTIME_FAILED, PROVIDER_UNAVAILABLE, OUT_OF_MEMORY
   */
  async open(sequences: number): Promise<{ session: Session; slots: number }> {
    const slots = slotsFor(sequences, this.#offered)
    const opening = this.#sessions.get(slots) ?? this.#load(slots)
    this.#sessions.set(slots, opening)
    try {
      return { session: await opening, slots }
    } catch (error) {
      this.#sessions.delete(slots)
      throw error
    }
  }

  async release(): Promise<void> {
    const sessions = await Promise.allSettled(this.#sessions.values())
    this.#sessions.clear()
    await Promise.all(sessions.map((session) => (session.status === 'fulfilled' ? session.value.release() : undefined)))
  }

  async #load(slots: number): Promise<Session> {
    const { runtime, folder, manifest, weights, threads, providers } = this.#source
    const path = join(folder, manifest.graphs[slots] ?? '')
    const graph = await readFile(path).catch((cause: unknown) => {
      throw new BrimError('BUNDLE_CORRUPT', `${path} cannot be read`, { cause, hint: 'build the bundle again' })
    })
    return runtime.session(graph, { threads, providers, weights, externalFolder: folder })
  }
}
