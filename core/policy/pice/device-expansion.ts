import type { SentencePlace } from '../../wire/protocol/expansion.ts'
import { type Machine, noActions } from '../machine.ts'
import type { CandidateSource } from './choose-candidates.ts'
import { chooseSources, groupSentences, type SketchShape } from './expansion-groups.ts'
import type { SmallModelSpeed } from './state.ts'

export interface RequestedSketch extends Omit<SketchShape, 'budgetS'> {
  /** Time within which the expansion beats the LLM alone, from the arrival of the job. */
  readonly budgetMs: number
}

export interface DeviceExpansionSettings {
  readonly sketches: readonly RequestedSketch[]
  /** Ascending by ability. At least one. */
  readonly models: readonly SmallModelSpeed[]
  readonly current: string | undefined
  /** Whether no other job waits on this device. */
  readonly isQueueEmpty: boolean
  /** Sequences that are decoded together. */
  readonly maxSequences: number
  /** How long the job has waited for others of this device. */
  readonly waitedMs: number
}

/** Lines that are expanded one after another, in one sequence. */
export interface SentenceGroup {
  readonly candidate: number
  /** 0: the model's own expansion; others: further samples of it. */
  readonly sample: number
  /** Indices of the lines, at least one. */
  readonly sentences: readonly number[]
}

/** What one model is to expand of one sketch. */
export interface SketchGroups {
  readonly sketch: number
  /** Those that begin the sketch come first. */
  readonly groups: readonly SentenceGroup[]
}

export type DeviceExpansionInput =
  /** A sentence is written, by this attempt or by an earlier one. */
  | ({ readonly kind: 'sentence' } & SentencePlace)
  | { readonly kind: 'begin' }
  /** The model has expanded what it was given, or could not. */
  | { readonly kind: 'expanded' | 'failed' }

export type DeviceExpansionAction =
  /** Of the sentence: it was missing. */
  | { readonly kind: 'keep' }
  /** Leads to the input `expanded` or `failed`. */
  | { readonly kind: 'expand'; readonly model: string; readonly work: readonly SketchGroups[] }
  /** The model that failed was the last resort. */
  | { readonly kind: 'fail' }
  | { readonly kind: 'done' }

/**
 * A job `pice.expand` on its device (PICE, Algorithm 2, execution optimiser, ensemble): the small models, one after another, and the
 * groups of lines that each decodes. What earlier attempts have written is left out. Mutable.
 */
export class DeviceExpansion implements Machine<DeviceExpansionInput, DeviceExpansionAction> {
  readonly wakeMs = undefined
  readonly #settings: DeviceExpansionSettings
  /** Candidates that are missing. */
  readonly #missing: Set<string>
  #startedMs = 0
  #sources: readonly CandidateSource[] = []
  /** Models that have yet to expand something; the first one expands now. */
  #models: string[] = []

  constructor(settings: DeviceExpansionSettings) {
    this.#settings = settings
    this.#missing = new Set(
      settings.sketches.flatMap(({ sentences, candidates }, sketch) =>
        sentences.flatMap((sentence) =>
          Array.from({ length: candidates }, (_, candidate) => keyOf({ sketch, sentence, candidate })),
        ),
      ),
    )
  }

  handle(input: DeviceExpansionInput, nowMs: number): readonly DeviceExpansionAction[] {
    switch (input.kind) {
      case 'sentence':
        // It may be written twice: for an attempt that was given up, and for the next.
        return this.#missing.delete(keyOf(input)) ? [{ kind: 'keep' }] : noActions
      case 'begin':
        this.#startedMs = nowMs
        this.#sources = chooseSources(this.#shapes(nowMs), this.#settings)
        this.#models = [...new Set(this.#sources.map(({ model }) => model))]
        return this.#expand(nowMs)
      case 'expanded':
        this.#models.shift()
        return this.#expand(nowMs)
      case 'failed': {
        const failed = this.#models.shift()!
        const first = this.#sources[0]!.model
        if (failed === first) return [{ kind: 'fail' }]
        // The ensemble is for quality only: samples of the first model take the place.
        this.#sources = this.#sources.map((source, sample) => (source.model === failed ? { model: first, sample } : source))
        this.#models.unshift(first)
        return this.#expand(nowMs)
      }
      default:
        return input satisfies never
    }
  }

  #expand(nowMs: number): readonly DeviceExpansionAction[] {
    for (;;) {
      const [model] = this.#models
      if (model === undefined) return [{ kind: 'done' }]
      const work = this.#workOf(model, nowMs)
      if (work.length > 0) return [{ kind: 'expand', model, work }]
      this.#models.shift()
    }
  }

  /** Those of its candidates that are missing. */
  #workOf(name: string, nowMs: number): readonly SketchGroups[] {
    const { sketches, models, maxSequences } = this.#settings
    const speed = models.find(({ model }) => model === name)!
    const shapes = this.#shapes(nowMs)
    return shapes.flatMap((shape, sketch) => {
      const groups = this.#sources.slice(0, sketches[sketch]!.candidates).flatMap(({ model, sample }, candidate) => {
        if (model !== name) return []
        const missing = shape.sentences.filter((sentence) => this.#missing.has(keyOf({ sketch, sentence, candidate })))
        const grouped = groupSentences(shape, missing, speed, maxSequences)
        return grouped.map((sentences) => ({ candidate, sample, sentences }))
      })
      groups.sort((a, b) => a.sentences[0]! - b.sentences[0]! || a.candidate - b.candidate)
      return groups.length > 0 ? [{ sketch, groups }] : []
    })
  }

  /** With what is left of their budgets: what the job has waited and run is spent. */
  #shapes(nowMs: number): readonly SketchShape[] {
    const { sketches, waitedMs } = this.#settings
    const spentMs = waitedMs + nowMs - this.#startedMs
    return sketches.map(({ budgetMs, ...shape }) => ({ ...shape, budgetS: (budgetMs - spentMs) / 1_000 }))
  }
}

const keyOf = ({ sketch, sentence, candidate }: SentencePlace) => `${sketch} ${sentence} ${candidate}`
