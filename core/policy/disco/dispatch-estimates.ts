import { ForgettingHistogram, type HistogramLayout, type HistogramWire } from '../estimate/forgetting-histogram.ts'
import { LinearFit } from '../estimate/linear-fit.ts'
import type { PromptLengths } from './dispatch.ts'
import { gapsLayout, type PastLengths, paceHalfLife, tokensLayout, ttftHalfLife, ttftLayout } from './estimates.ts'
import { SilentStarts } from './silent-starts.ts'
import { localEstimate, type RemoteEstimate, remoteEstimate, type StartEstimate } from './start-estimates.ts'

/** A small model, for what is known of its starts. */
export interface LocalStarts {
  readonly model: string
  /** As measured otherwise; undefined: not at all. */
  readonly prefillTokensPerS?: number | undefined
  /** Work of a token of the prompt, by the model's size; absent: unknown. */
  readonly flopsPerToken?: number | undefined
}

/** What is asked over the network, for what is known of its starts. */
export interface RemoteStarts {
  /** Of the server, with its model. */
  readonly name: string
  /** F as a bridge measures it itself. */
  readonly announced?: ForgettingHistogram | HistogramWire | undefined
  /** Between its tokens, likewise. */
  readonly announcedMsPerToken?: number | undefined
}

/** What the dispatch of answers depends on. It learns from each of them. */
export interface Estimates {
  /** p(l): tokens of prompts in mode auto. */
  readonly promptTokens: PromptLengths & { record(tokens: number): void }
  /** Tokens of answers that ended by themselves or at their limit. */
  readonly answerTokens: PastLengths & { record(tokens: number): void }
  /** For one answer. */
  local(starts: LocalStarts): StartEstimate
  /** For one answer. @param patience as of `remoteEstimate` */
  remote(starts: RemoteStarts, patience?: number): RemoteEstimate
  /** An answer has ended. */
  answered(): void
}

/** Estimates by names, learned from earlier answers. Histograms are stored in tens of numbers each. Mutable. */
export class DispatchEstimates implements Estimates {
  readonly #stored: (name: string) => HistogramWire | readonly number[] | undefined
  readonly #known = new Map<string, ForgettingHistogram | LinearFit>()
  readonly #silence = new Map<string, SilentStarts>()

  /** @param stored what `toWire` returned of a name; absent: nothing is known yet */
  constructor(stored: (name: string) => HistogramWire | readonly number[] | undefined = () => undefined) {
    this.#stored = stored
  }

  get promptTokens(): ForgettingHistogram {
    return this.#histogram('prompt tokens', tokensLayout)
  }

  get answerTokens(): ForgettingHistogram {
    return this.#histogram('answer tokens', tokensLayout)
  }

  /** F: time to the first token, in ms. @param name as of `RemoteStarts` */
  remoteTtft(name: string): ForgettingHistogram {
    return this.#histogram(`ttft of server ${name}`, ttftLayout)
  }

  /** Gaps between its pieces, in ms. @param name as of `RemoteStarts` */
  remoteGaps(name: string): ForgettingHistogram {
    return this.#histogram(`gaps of server ${name}`, gapsLayout)
  }

  /** Forgotten at a restart: three requests find it out again. @param name as of `RemoteStarts` */
  remoteSilence(name: string): SilentStarts {
    const known = this.#silence.get(name) ?? new SilentStarts()
    this.#silence.set(name, known)
    return known
  }

  /** k·l + c: time to the first token of a small model, in ms by tokens of the prompt. */
  localTtft(model: string): LinearFit {
    return this.#fit(`ttft of model ${model}`, ttftHalfLife)
  }

  local({ model, prefillTokensPerS, flopsPerToken }: LocalStarts): StartEstimate {
    const pace = this.#fit(`pace of model ${model}`, paceHalfLife)
    return localEstimate(this.localTtft(model), prefillTokensPerS, flopsPerToken, pace)
  }

  remote({ name, announced, announcedMsPerToken }: RemoteStarts, patience?: number): RemoteEstimate {
    const others =
      announced instanceof ForgettingHistogram ? announced : announced && ForgettingHistogram.fromWire(ttftLayout, announced)
    const learning = {
      starts: this.remoteTtft(name),
      startsByTokens: this.#fit(`ttft by prompt of server ${name}`, ttftHalfLife),
      silence: this.remoteSilence(name),
      gaps: this.remoteGaps(name),
      pace: this.#fit(`pace of server ${name}`, paceHalfLife),
    }
    return remoteEstimate(learning, others, patience, announcedMsPerToken)
  }

  answered(): void {}

  /** All that is known by name. */
  *wires(): Generator<readonly [string, HistogramWire | readonly number[] | undefined]> {
    for (const [name, estimate] of this.#known) yield [name, estimate.toWire()]
  }

  #fit(name: string, halfLife: number): LinearFit {
    const known = this.#known.get(name)
    if (known instanceof LinearFit) return known
    const stored = this.#stored(name)
    const fit = (isSums(stored) && LinearFit.fromWire(halfLife, stored)) || new LinearFit(halfLife)
    this.#known.set(name, fit)
    return fit
  }

  #histogram(name: string, layout: HistogramLayout): ForgettingHistogram {
    const known = this.#known.get(name)
    if (known instanceof ForgettingHistogram) return known
    const stored = this.#stored(name)
    const histogram =
      (stored && !isSums(stored) && ForgettingHistogram.fromWire(layout, stored)) || new ForgettingHistogram(layout)
    this.#known.set(name, histogram)
    return histogram
  }
}

const isSums = (stored: HistogramWire | readonly number[] | undefined): stored is readonly number[] => Array.isArray(stored)
