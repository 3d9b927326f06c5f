import { type AnswerRequest, type Endpoint, startOf } from '../../core/answer/endpoint.ts'
import { type DeviceMode, isDeviceMode } from '../../core/base/answer-modes.ts'
import { BrimError, type ErrorCode } from '../../core/base/errors.ts'
import { limitedSide, type SideCosts, type Work } from '../../core/policy/disco/costs.ts'
import { expectedRemaining } from '../../core/policy/disco/estimates.ts'
import { preferredSide, startTimes } from '../../core/policy/disco/start-times.ts'
import type { Dispatch, Side, TokenCosts } from '../../core/policy/disco/state.ts'
import type { Budget, WantedSide } from './budget.ts'
import type { LocalCandidate, RemoteCandidate } from './candidate.ts'
import type { DispatchConfig } from './config.ts'
import type { DispatchEstimates } from './estimates.ts'
import { type Candidates, type ChosenSides, sidesOf } from './modes.ts'
import type { AnswerPlan } from './plan.ts'
import type { AnswerSide } from './side.ts'

export interface PlannerOptions {
  readonly config: DispatchConfig
  /** As they are now. */
  readonly candidates: () => Candidates
  /** Why there is no HAT. */
  readonly problem: () => BrimError
  readonly estimates: DispatchEstimates
  readonly budget: Budget
}

const both: readonly Side[] = ['local', 'remote']
const never = Number.POSITIVE_INFINITY
/** A side that starts only if the other one fails, or takes longer than a reader's patience. */
const isBackup = (mode: DeviceMode, side: Side, startMs: number): boolean =>
  startMs === never || (startMs > 0 && (side === 'remote' || mode === 'private' || mode === 'cloud'))
/** Of a prompt that no tokenizer here has read. */
const bytesPerToken = 4
/** Failures after which the other side may still read the prompt. */
const unreadable: ReadonlySet<ErrorCode> = new Set(['CONTEXT_OVERFLOW', 'CHAT_TEMPLATE_INVALID', 'REQUEST_INVALID'])

/** Decides for each answer which sides make it, when each of them starts, and how fast it is delivered (DiSCo). */
export class Planner {
  readonly #options: PlannerOptions

  constructor(options: PlannerOptions) {
    this.#options = options
  }

  /** Checks before any work that the mode can answer the request. @throws FieldError, BrimError as `sidesOf` */
  check(request: AnswerRequest): void {
    const { candidates, problem } = this.#options
    sidesOf(this.#modeOf(request), request, candidates(), problem)
  }

  /**
   * @throws BrimError CONTEXT_OVERFLOW, CHAT_TEMPLATE_INVALID, REQUEST_INVALID where no side can read the prompt; BUDGET_EXHAUSTED;
   * CANCELED; as `check`
   */
  async plan(request: AnswerRequest, signal: AbortSignal): Promise<AnswerPlan> {
    const { candidates, problem, estimates, budget } = this.#options
    const mode = this.#modeOf(request)
    const allowed = sidesOf(mode, request, candidates(), problem)
    const { sides, counted, promptTokens } = await readable(allowed, mode, request, signal)
    if (mode === 'auto') estimates.promptTokens.record(promptTokens)

    const remaining = (tokens: number) => {
      const left = request.maxTokens === undefined ? undefined : request.maxTokens - tokens
      return expectedRemaining(estimates.answerTokens, tokens, left)
    }
    const work = { promptTokens, tokens: remaining(0) }
    const costs = { local: sides.local && budget.costs('slm'), remote: sides.remote && budget.costs(sides.remote.spender) }
    const constrained = mode === 'auto' && sides.local && sides.remote ? this.#constrained(costs) : undefined
    const tokensPerS = this.#rateOf(mode, request)
    const wanted = this.#dispatch(mode, sides, work, costs, tokensPerS)
    // Until it is known whether the device starts, no other answer counts on it.
    const release = sides.local && wanted.local < never ? sides.local.slots.reserve() : () => {}
    const asked = both.flatMap((side): [Side, WantedSide][] => {
      const candidate = sides[side]
      if (!candidate) return []
      const { spender } = candidate
      const estimate = { ...work, promptTokens: counted[side] ?? promptTokens }
      const limits = {
        promptTokens: maxPromptTokensOf(candidate)?.(request) ?? estimate.promptTokens,
        tokens: request.maxTokens,
      }
      return [[side, { spender, estimate, limits, isBackup: isBackup(mode, side, wanted[side]) }]]
    })
    const admission = await budget
      .admit({ sides: Object.fromEntries(asked), promptTokens, isAuto: mode === 'auto' }, signal)
      .catch((error: unknown) => {
        release()
        throw error
      })
    const admitted = (side: Side) => admission.sides.includes(side)
    const local = admitted('local') ? sides.local : undefined
    const remote = admitted('remote') ? sides.remote : undefined
    // A side that is left alone does not wait for the other.
    const dispatch = { local: remote ? wanted.local : 0, remote: local ? wanted.remote : 0 }
    if (!local) release()
    // The time that a start has waited for the small model tells nothing of its speed.
    let hasWaited = false
    const begin = () => {
      release()
      hasWaited = local?.slots.isFull ?? false
    }

    const candidateOf = (side: Side) => (side === 'local' ? local : remote)
    return {
      mode,
      sides: {
        ...(local && { local: sideOf(local, counted.local, costs.local, begin) }),
        ...(remote && { remote: sideOf(remote, counted.remote, costs.remote) }),
      },
      dispatch,
      constrained,
      tokensPerS,
      promptTokens,
      preferred: local && remote && preferredSide(mode, costs),
      expectedRemaining: remaining,
      get exhausted() {
        return admission.exhausted
      },
      costOf: (side) => admission.costOf(side),
      observe: {
        firstToken(side, ms, tokens) {
          if (side === 'remote') release()
          if (side === 'remote' || !hasWaited) candidateOf(side)?.firstToken(ms, tokens)
        },
        canceled: (side, ms, tokens) => candidateOf(side)?.canceled(ms, tokens),
        start: (side, run) => admission.start(side, run),
        ended(tokens) {
          release()
          admission.end()
          if (tokens !== undefined) estimates.answerTokens.record(tokens)
          estimates.answered()
        },
      },
    }
  }

  #modeOf({ mode }: AnswerRequest): DeviceMode {
    return isDeviceMode(mode) ? mode : this.#options.config.mode
  }

  #constrained(costs: SideCosts): Side {
    return limitedSide(this.#options.config.constrained, costs)
  }

  #dispatch(mode: DeviceMode, { local, remote }: ChosenSides, work: Work, costs: SideCosts, tokensPerS: number): Dispatch {
    const { config, estimates } = this.#options
    return startTimes(mode, {
      can: { local: local !== undefined, remote: remote !== undefined },
      isLocalFree: local?.slots.isFree ?? false,
      isRemoteSilent: remote?.isSilent ?? false,
      costs,
      work,
      // Who takes the answer as it comes has nothing in hand while it returns to the other side.
      patienceMs: tokensPerS > 0 ? config.autoPatienceS * 1_000 : undefined,
      dispatch: () => ({
        constrained: this.#constrained(costs),
        share: config.share,
        remoteTtftMs: remote!.ttftMs,
        promptLengths: estimates.promptTokens,
        patience: { maxMs: config.autoPatienceS * 1_000, localMs: local!.startMs(work.promptTokens) },
      }),
    })
  }

  /** r_c. Only where an answer may migrate to save money is it worth delivering it no faster than it is read. */
  #rateOf(mode: DeviceMode, { isWhole, tokensPerS }: AnswerRequest): number {
    if (isWhole) return 0
    return tokensPerS ?? (mode === 'auto' || mode === 'cheap' ? this.#options.config.tokensPerS : 0)
  }
}

/** The sides that can read a prompt, and its length. */
interface Readable {
  readonly sides: ChosenSides
  readonly counted: Readonly<Partial<Record<Side, number | undefined>>>
  readonly promptTokens: number
}

/** @param onBegin called before a start of the small model waits for it */
function sideOf(
  candidate: LocalCandidate | RemoteCandidate,
  promptTokens: number | undefined,
  costs: TokenCosts | undefined,
  onBegin?: () => void,
): AnswerSide {
  const { endpoint, continues, pauses } = candidate
  const startMs = (tokens: number) => candidate.startMs(tokens)
  const common = { promptTokens, continues, pauses, costs, startMs }
  if (!('slots' in candidate)) {
    const { untilReachable, maxPromptTokens } = candidate
    return { ...common, endpoint, maxPromptTokens, ...(untilReachable && { untilReachable }) }
  }
  const { slots } = candidate
  const limited: Endpoint = {
    model: endpoint.model,
    async *answer(request, signal) {
      onBegin?.()
      const free = await slots.take(signal)
      try {
        yield* endpoint.answer(request, signal)
      } finally {
        free()
      }
    },
  }
  return { ...common, endpoint: limited }
}

const maxPromptTokensOf = (candidate: LocalCandidate | RemoteCandidate) =>
  'maxPromptTokens' in candidate ? candidate.maxPromptTokens : undefined

/**
 * The sides that can read the prompt, and its length: as far as each of them counts it, and that of the side that is sure to read it.
 * @throws BrimError where there is none
 */
async function readable(allowed: ChosenSides, mode: DeviceMode, request: AnswerRequest, signal: AbortSignal): Promise<Readable> {
  const { local, remote } = allowed
  // The split model must hold the prompt; the small one is only looked at in time, as it may never be needed.
  if (mode === 'private' && remote) {
    const promptTokens = await tokensFor(remote, request, signal)
    if (local?.endpoint.model.tokenizer) await request.prompt.check(local.endpoint.model, request.client, signal)
    return { sides: allowed, counted: { remote: promptTokens }, promptTokens: promptTokens ?? 0 }
  }
  const failures: unknown[] = []
  const count = async (candidate: LocalCandidate | RemoteCandidate | undefined) => {
    try {
      return candidate && { candidate, tokens: await tokensFor(candidate, request, signal) }
    } catch (error) {
      if (signal.aborted || !(error instanceof BrimError) || !unreadable.has(error.code)) throw error
      failures.push(error)
      return undefined
    }
  }
  const [onDevice, atServer] = [await count(local), await count(remote)]
  if (!onDevice && !atServer) throw failures[0]
  const sides: ChosenSides = {
    ...(onDevice && local && { local }),
    ...(atServer && remote && { remote }),
  }
  const counted: Partial<Record<Side, number | undefined>> = { local: onDevice?.tokens, remote: atServer?.tokens }
  return { sides, counted, promptTokens: counted.local ?? counted.remote ?? estimatedTokens(request) }
}

/** Undefined: another server reads the prompt, and tells only then. @throws BrimError as `startOf` */
async function tokensFor({ endpoint }: LocalCandidate | RemoteCandidate, request: AnswerRequest, signal: AbortSignal) {
  const { model } = endpoint
  return model.tokenizer && (await startOf(request, model, signal)).ids.length
}

function estimatedTokens({ prompt }: AnswerRequest): number {
  const content = prompt.asText()
  return Math.ceil(Buffer.byteLength(content.kind === 'text' ? content.text : JSON.stringify(content.messages)) / bytesPerToken)
}
