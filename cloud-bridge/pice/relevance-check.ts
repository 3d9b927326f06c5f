import type { Logger } from '../../core/kit/base/logger.ts'
import type { Random } from '../../core/kit/base/random.ts'
import { knownWeight } from '../../core/policy/pice/ability.ts'
import { relevanceOf } from '../../core/policy/pice/relevance.ts'
import type { Likelihood } from './likelihood.ts'
import type { Asked } from './llm.ts'

/** A sentence that a device wrote for an answer. */
export interface WrittenByDevice {
  readonly device: string
  readonly model: string
  readonly text: string
}

export interface RelevanceCheckOptions {
  readonly likelihood: Likelihood
  readonly random: Random
  readonly profiles: {
    /** Sentences by which the relevance of a device's model is known. */
    checked(device: string, model: string): number
    judgeRelevance(device: string, model: string, relevance: number): void
  }
  readonly logger: Logger
}

/** Of the answers whose devices are known. */
const share = 1 / 16

/**
 * Asks the LLM whether sentences of devices have to do with the question: of each device at first, then of a sample. What a device says
 * of its own sentences, and that they have the words of their lines, does not tell.
 */
export class RelevanceCheck {
  readonly #options: RelevanceCheckOptions
  readonly #stop = new AbortController()
  /** One at a time: readers come first. */
  #running: Promise<void> | undefined

  constructor(options: RelevanceCheckOptions) {
    this.#options = options
  }

  onEnded(asked: Asked, sentences: readonly WrittenByDevice[]): void {
    const { profiles, random, logger } = this.#options
    if (this.#running || this.#stop.signal.aborted || sentences.length === 0) return
    const unknown = sentences.filter(({ device, model }) => profiles.checked(device, model) < knownWeight)
    if (unknown.length === 0 && random.next() >= share) return
    const from = unknown.length > 0 ? unknown : sentences
    const sentence = from[Math.floor(random.next() * from.length)]!
    this.#running = this.#check(asked, sentence)
      .catch((err: unknown) => {
        if (!this.#stop.signal.aborted) logger.debug({ err }, 'relevance of a sentence not checked')
      })
      .finally(() => {
        this.#running = undefined
      })
  }

  async #check({ messages, request: { client } }: Asked, { device, model, text }: WrittenByDevice): Promise<void> {
    const { likelihood, profiles } = this.#options
    const { signal } = this.#stop
    const withQuestion = await likelihood(messages, text, client, signal)
    const withoutQuestion = await likelihood([{ role: 'user', content: '' }], text, client, signal)
    if (withQuestion === undefined || withoutQuestion === undefined) return
    profiles.judgeRelevance(device, model, relevanceOf(withQuestion, withoutQuestion))
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }
}
