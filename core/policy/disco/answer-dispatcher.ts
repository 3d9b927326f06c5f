import type { DeviceMode } from '../../kit/base/answer-modes.ts'
import type { ControlledSide, ControllerPlan, SideWork, StartListener } from './controller-plan.ts'
import { limitedSide, type SideCosts } from './costs.ts'
import type { Estimates, LocalStarts, RemoteStarts } from './dispatch-estimates.ts'
import { expectedRemaining } from './estimates.ts'
import { type Forecast, forecastOf } from './forecast.ts'
import { RemoteChoice } from './remote-choice.ts'
import { ShareCredit } from './share-credit.ts'
import type { SmallModelUse } from './small-model-use.ts'
import type { RemoteEstimate, StartEstimate } from './start-estimates.ts'
import { preferredSide, remoteModes, startTimes } from './start-times.ts'
import type { ReportedSide, Side, StartDelays, TokenCosts } from './state.ts'

export interface DispatchSettings {
  /** The side that the share limits; auto: the dearer one. */
  readonly constrained: Side | ReportedSide | 'auto'
  /** b: part of all prompt tokens that the limited side may process in mode auto. */
  readonly share: number
  /** α; absent: as of `DispatchState`. */
  readonly tailShare?: number | undefined
  /** How long readers wait for a first token before a side starts that would not; undefined: as long as it takes (the paper). */
  readonly patienceMs: number | undefined
  /** Of readers in the modes auto and cheap who state no rate; 0: they take tokens as fast as these come. */
  readonly tokensPerS: number
  /** Part of the remote starts that their estimate is to be enough for; absent: as of `remoteEstimate`. */
  readonly startsInTime?: number
  /** Whether answers move to the side that is to write them. Default: true. */
  readonly migrates?: boolean
  /** As of `ControllerPlan`. */
  readonly returns?: boolean
  /** t_m of Eq. 6 of the small model: of the prompt and the answer so far, or of the prompt alone (the paper). Default: 'answer'. */
  readonly migrationCounts?: 'answer' | 'prompt'
}

export interface AskedSide {
  /** Undefined: a price is unknown. */
  readonly costs: TokenCosts | undefined
  readonly continues: boolean
  readonly pauses: boolean
}

export type AskedRemote = AskedSide & RemoteStarts

/** What decides how an answer is made. Plain data. */
export interface DispatchQuestion {
  readonly mode: DeviceMode
  /** Sides that can answer: at least one. */
  readonly sides: {
    readonly local?: (AskedSide & LocalStarts) | undefined
    readonly remote?: AskedRemote | undefined
  }
  /** That may make the answer in place of `sides.remote`, whichever gives the reader more; those to be preferred first. */
  readonly instead?: readonly AskedRemote[] | undefined
  /** l. */
  readonly promptTokens: number
  /** Tokens that the answer may have; undefined: any number. */
  readonly maxTokens?: number | undefined
  /** Of its reader, per second; undefined: not stated. */
  readonly tokensPerS?: number | undefined
  /** Whether the reader gets the answer in one piece. */
  readonly isWhole?: boolean | undefined
  /** In place of a plan: a baseline. */
  readonly dispatch?: StartDelays
}

/** An answer that one remote endpoint has made by itself, which may take part in others. */
export interface SingleAnswer extends SideWork {
  /** Undefined: it has none. */
  readonly firstTokenMs: number | undefined
  /** How long its reader has waited before it left without a token. */
  readonly canceledMs: number | undefined
  /** Otherwise it has ended, or its reader has left. */
  readonly hasFailed: boolean
}

/** How one answer is to be made. */
export interface DispatchPlan extends ControllerPlan {
  /** The side whose use the share limits; undefined: mode or sides leave no choice. */
  readonly constrained: Side | undefined
  /** The answer has ended, failed, or was left. @param tokens of the answer; undefined: it has no end of its own */
  ended(tokens: number | undefined): void
}

/** An answer that is planned, before it is known which sides its budget admits. */
export interface DispatchDraft {
  /** The remote side, by its name; undefined: there is none. */
  readonly remote: string | undefined
  /** When each side is to start, if all are admitted. */
  readonly wanted: StartDelays
  /** What a side is expected to do. */
  readonly work: SideWork
  /** Whether a side works only if the other one cannot, or takes longer than its reader's patience. */
  isBackup(side: Side): boolean
  /** Once, unless it is dropped. @param sides that are admitted: at least one of the question's */
  begin(sides: readonly Side[]): DispatchPlan
  /** Nothing comes of it. */
  drop(): void
}

const never = Number.POSITIVE_INFINITY

/**
 * The dispatch of one device's answers (DiSCo): decides for each which sides make it, when each of them starts, which one writes the
 * rest and how fast it is delivered, and learns from its starts and its length. Mutable.
 */
export class AnswerDispatcher {
  readonly #settings: DispatchSettings
  readonly #estimates: Estimates
  readonly #smallModel: SmallModelUse
  readonly #credit = new ShareCredit()
  readonly #remotes = new RemoteChoice()

  /** @param smallModel whose answers in progress others count as well */
  constructor(settings: DispatchSettings, estimates: Estimates, smallModel: SmallModelUse) {
    this.#settings = settings
    this.#estimates = estimates
    this.#smallModel = smallModel
  }

  ask(asked: DispatchQuestion): DispatchDraft {
    const { mode, promptTokens, maxTokens } = asked
    const { answerTokens, promptTokens: promptLengths } = this.#estimates
    if (mode === 'auto') promptLengths.record(promptTokens)
    const remaining = (tokens: number) =>
      expectedRemaining(answerTokens, tokens, maxTokens === undefined ? undefined : maxTokens - tokens)
    const work = {
      promptTokens,
      // Few modes ask for it.
      get tokens() {
        return remaining(0)
      },
    }
    const tokensPerS = this.#rateOf(asked)
    const remote = this.#remoteOf(asked, work, tokensPerS)
    const question = asked.instead ? { ...asked, sides: { ...asked.sides, remote: remote?.asked } } : asked
    const { sides } = question
    const starts: Starts = { local: sides.local && this.#estimates.local(sides.local), remote: remote?.starts }
    const isShared = mode === 'auto' && sides.local !== undefined && sides.remote !== undefined && !question.dispatch
    if (isShared) this.#credit.asked(promptTokens, this.#settings.share)
    const wanted = question.dispatch ?? this.#dispatch(question, starts, work, tokensPerS)
    // Until it is known whether the small model starts, no other answer counts on it.
    const release = sides.local && wanted.local < never ? this.#smallModel.reserve() : () => {}
    return {
      remote: remote?.asked.name,
      wanted,
      work,
      isBackup: (side) => isBackup(mode, side, wanted[side]),
      begin: (admitted) => this.#begin({ question, starts, wanted, tokensPerS, remaining, release }, admitted),
      drop: release,
    }
  }

  /** What the answer would be by each way of the question: the small model, then the others in their order. */
  forecasts(question: DispatchQuestion): readonly Forecast[] {
    const { sides, instead = [], promptTokens, maxTokens } = question
    const { local, remote } = sides
    const work = { promptTokens, tokens: expectedRemaining(this.#estimates.answerTokens, 0, maxTokens) }
    const tokensPerS = this.#rateOf(question)
    const ofLocal = (asked: NonNullable<typeof local>) => {
      const starts = this.#estimates.local(asked)
      const firstMs = this.#localStartMs(starts, promptTokens, promptTokens)
      const { msPerToken, isKnown } = starts
      return forecastOf({ name: asked.model, firstMs, msPerToken, costs: asked.costs, isKnown }, work, tokensPerS)
    }
    const remotes = [...(remote ? [remote] : []), ...instead]
    return [
      ...(local ? [ofLocal(local)] : []),
      ...remotes.map((asked) => remoteForecast(asked, this.#estimates.remote(asked), work, tokensPerS)),
    ]
  }

  /** @param name as of `RemoteStarts` */
  learn(name: string, { promptTokens, tokens, firstTokenMs, canceledMs, hasFailed }: SingleAnswer): void {
    const starts = this.#estimates.remote({ name })
    if (firstTokenMs !== undefined) starts.firstToken(firstTokenMs, promptTokens)
    if (canceledMs !== undefined) starts.canceled(canceledMs, promptTokens)
    if (!hasFailed) this.#estimates.answerTokens.record(tokens)
    this.#estimates.answered()
  }

  #begin({ question, starts, wanted, tokensPerS, remaining, release }: Begun, admitted: readonly Side[]): DispatchPlan {
    const { mode, sides, promptTokens } = question
    const { migrates = true, returns = true, constrained } = this.#settings
    const local = admitted.includes('local') ? sides.local : undefined
    const remote = admitted.includes('remote') ? sides.remote : undefined
    if (!local) release()
    const costs = costsOf(question)
    const limited = mode === 'auto' && sides.local && sides.remote ? limitedSide(constrained, costs) : undefined
    return {
      sides: {
        ...(local && { local: controlled(local, (tokens) => this.#localStartMs(starts.local!, tokens, promptTokens)) }),
        ...(remote && {
          remote: {
            ...controlled(remote, (tokens) => starts.remote!.startMs(tokens)),
            // HAT waits for its bridge as long as its owner allows.
            ...(mode !== 'private' && { lateMs: starts.remote!.lateMs }),
          },
        }),
      },
      // A side that is left alone does not wait for the other.
      dispatch: { local: remote ? wanted.local : 0, remote: local ? wanted.remote : 0 },
      constrained: limited,
      tokensPerS,
      promptTokens,
      preferred: local && remote && migrates ? preferredSide(mode, costs) : undefined,
      returns,
      expectedRemaining: remaining,
      learn: this.#listener(starts, release, limited, promptTokens, sides.remote?.name),
      ended: (tokens) => {
        release()
        if (tokens !== undefined) this.#estimates.answerTokens.record(tokens)
        this.#estimates.answered()
      },
    }
  }

  /** The remote side, chosen where there are several. */
  #remoteOf({ sides, instead = [] }: DispatchQuestion, work: SideWork, tokensPerS: number) {
    const remotes = [...(sides.remote ? [sides.remote] : []), ...instead].map((asked) => {
      return { asked, starts: this.#estimates.remote(asked, this.#settings.startsInTime) }
    })
    if (remotes.length <= 1) return remotes[0]
    const options = remotes.map(({ asked, starts }) => {
      return { forecast: remoteForecast(asked, starts, work, tokensPerS), isSilent: starts.isSilent }
    })
    return remotes[this.#remotes.choose(options)]
  }

  #dispatch(question: DispatchQuestion, { local, remote }: Starts, work: SideWork, tokensPerS: number): StartDelays {
    const { constrained, share, tailShare, patienceMs } = this.#settings
    const costs = costsOf(question)
    return startTimes(question.mode, {
      can: { local: local !== undefined, remote: remote !== undefined },
      isLocalFree: this.#smallModel.isFree,
      isRemoteSilent: remote?.isSilent ?? false,
      costs,
      work,
      // A streamed answer has no buffer while it returns to the other side.
      patienceMs: tokensPerS > 0 ? patienceMs : undefined,
      dispatch: () => ({
        constrained: limitedSide(constrained, costs),
        share: this.#credit.planned(share),
        ...(tailShare !== undefined && { tailShare }),
        remoteTtftMs: remote!.ttftMs,
        promptLengths: this.#estimates.promptTokens,
        localMs: (tokens) => local!.startMs(tokens),
        patience: patienceMs === undefined ? undefined : { maxMs: patienceMs, localMs: local!.startMs(work.promptTokens) },
      }),
    })
  }

  /** r_c. Only where an answer may migrate to save money is it worth delivering it no faster than it is read. */
  #rateOf({ mode, isWhole, tokensPerS }: DispatchQuestion): number {
    if (isWhole) return 0
    return tokensPerS ?? (mode === 'auto' || mode === 'cheap' ? this.#settings.tokensPerS : 0)
  }

  /** Infinitely late while the small model is busy. */
  #localStartMs(starts: StartEstimate, tokens: number, promptTokens: number): number {
    if (!this.#smallModel.isFree) return never
    return starts.startMs(this.#settings.migrationCounts === 'prompt' ? promptTokens : tokens)
  }

  /** @param limited the side whose share of the prompts is limited */
  #listener(
    starts: Starts,
    release: () => void,
    limited: Side | undefined,
    promptTokens: number,
    remote: string | undefined,
  ): StartListener {
    // What migrates later does so because it costs less.
    let mayCount = limited
    // The time that a start has waited for the small model tells nothing of its speed.
    let hasWaited = false
    return {
      started: (side) => {
        if (side === mayCount) {
          this.#credit.begun(promptTokens)
          mayCount = undefined
        }
        if (side === 'remote') return
        release()
        hasWaited = this.#smallModel.isFull
      },
      firstToken(side, ms, tokens) {
        mayCount = undefined
        if (side === 'remote') release()
        if (side === 'remote' || !hasWaited) starts[side]?.firstToken(ms, tokens)
      },
      canceled: (side, ms, tokens) => starts[side]?.canceled(ms, tokens),
      gap: (side, ms, tokens) => starts[side]?.gap(ms, tokens),
      failed: (side) => {
        if (side === 'remote' && remote !== undefined) this.#remotes.failed(remote)
      },
    }
  }
}

function remoteForecast({ name, costs }: AskedRemote, starts: RemoteEstimate, work: SideWork, tokensPerS: number): Forecast {
  const { msPerToken, isKnown } = starts
  return forecastOf({ name, costs, firstMs: starts.firstMs(work.promptTokens), msPerToken, isKnown }, work, tokensPerS)
}

interface Starts {
  readonly local: StartEstimate | undefined
  readonly remote: RemoteEstimate | undefined
}

/** What is known of an answer when it is planned. */
interface Begun {
  readonly question: DispatchQuestion
  readonly starts: Starts
  readonly wanted: StartDelays
  readonly tokensPerS: number
  readonly remaining: (tokens: number) => number
  readonly release: () => void
}

const controlled = ({ continues, pauses, costs }: AskedSide, startMs: ControlledSide['startMs']): ControlledSide => ({
  continues,
  pauses,
  costs,
  startMs,
})

const costsOf = ({ sides }: DispatchQuestion): SideCosts => ({ local: sides.local?.costs, remote: sides.remote?.costs })

const isBackup = (mode: DeviceMode, side: Side, startMs: number): boolean =>
  startMs === never || (startMs > 0 && (side === 'remote' || remoteModes.has(mode)))
