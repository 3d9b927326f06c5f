import { type AnswerRequest, type Endpoint, startOf } from '../../core/answer/endpoint/endpoint.ts'
import { Prompt } from '../../core/answer/endpoint/prompt.ts'
import { type DeviceMode, deviceModes, isDeviceMode } from '../../core/kit/base/answer-modes.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError, type ErrorCode } from '../../core/kit/base/errors.ts'
import { greedy } from '../../core/model/engine/sampler.ts'
import type { DispatchQuestion } from '../../core/policy/disco/answer-dispatcher.ts'
import type { DispatchAction, DispatchInput, DispatchMachine } from '../../core/policy/disco/dispatch-machine.ts'
import type { WantedSide } from '../../core/policy/disco/side-account.ts'
import type { Side } from '../../core/policy/disco/state.ts'
import type { Machine } from '../../core/policy/machine.ts'
import type { Budget } from './budget.ts'
import type { LocalCandidate, RemoteCandidate } from './candidate.ts'
import { explainWays, type ForeseenWay } from './explain.ts'
import { type AllowedWays, type Candidates, waysOf } from './modes.ts'
import type { EndpointPlan } from './plan.ts'
import { shareTokens } from './side.ts'
import type { SmallModelSlots } from './small-model-slots.ts'

export interface DispatchPlannerOptions {
  /** Of requests that name none. */
  readonly mode: DeviceMode
  /** As they are now. */
  readonly candidates: () => Candidates
  /** Why there is no HAT. */
  readonly problem: () => BrimError
  /** Decides. */
  readonly dispatch: DispatchMachine
  /** The same, perhaps recorded. */
  readonly machine: Machine<DispatchInput, DispatchAction>
  readonly slots: SmallModelSlots
  readonly budget: Budget
  readonly clock: Clock
}

/** That every side can answer. */
export const anyRequest: AnswerRequest = {
  prompt: new Prompt({ kind: 'text', text: '' }),
  sampling: greedy,
  stop: [],
  client: '',
}

const both: readonly Side[] = ['local', 'remote']
/** Of a prompt that no tokenizer here has read. */
const bytesPerToken = 4
/** Failures after which the other side may still read the prompt. */
const unreadable: ReadonlySet<ErrorCode> = new Set(['CONTEXT_OVERFLOW', 'CHAT_TEMPLATE_INVALID', 'REQUEST_INVALID'])

/** Plans answers: finds what can write one and how long its prompt is, asks for a plan, and has the budget admit its sides. */
export class DispatchPlanner {
  readonly #options: DispatchPlannerOptions
  #answers = 0

  constructor(options: DispatchPlannerOptions) {
    this.#options = options
  }

  /** Checks before any work that the mode can answer the request. @throws FieldError, BrimError as `waysOf` */
  check(request: AnswerRequest): void {
    const { candidates, problem } = this.#options
    waysOf(this.modeOf(request), request, candidates(), problem)
  }

  /** Those that some request could be answered in now. */
  get modes(): DeviceMode[] {
    const { candidates, problem } = this.#options
    const present = candidates()
    return deviceModes.filter((mode) => {
      try {
        return waysOf(mode, anyRequest, present, problem)
      } catch (error) {
        if (error instanceof BrimError) return false
        throw error
      }
    })
  }

  /**
   * @throws BrimError CONTEXT_OVERFLOW, CHAT_TEMPLATE_INVALID, REQUEST_INVALID where no side can read the prompt; BUDGET_EXHAUSTED;
   * CANCELED; as `check`
   */
  async plan(request: AnswerRequest, signal: AbortSignal): Promise<EndpointPlan> {
    const { candidates, problem, dispatch, budget } = this.#options
    const mode = this.modeOf(request)
    const present = candidates()
    const readers = await readersOf(waysOf(mode, request, present, problem), mode, request, signal)
    const { promptTokens } = readers
    const question = this.#questionOf(readers, mode, request)
    this.#answers += 1
    const answer = this.#answers
    // Before it changes anything.
    const ways = request.isExplained && this.#foreseen(present, question)
    this.#handle({ kind: 'ask', answer, question })
    const draft = dispatch.draftOf(answer)
    const remote = readers.remotes.find(({ candidate }) => candidate.name === draft.remote)
    const sides: Sides = { local: readers.local?.candidate, remote: remote?.candidate }
    const counted: Counted = { local: readers.local?.tokens, remote: remote?.tokens }
    const admit = (admitted: readonly Side[]) =>
      this.#handle({ kind: 'admit', answer, sides: admitted, sharesTokens: shareTokens(sides) })
    const wanted = both.flatMap((side): [Side, WantedSide][] => {
      const candidate = sides[side]
      if (!candidate) return []
      const estimate = { promptTokens: counted[side] ?? promptTokens, tokens: draft.work.tokens }
      const limits = { promptTokens: maxPromptTokensOf(candidate)?.(request) ?? estimate.promptTokens, tokens: request.maxTokens }
      return [[side, { spender: candidate.spender, estimate, limits, isBackup: draft.isBackup(side) }]]
    })
    const admission = await budget
      .admit({ sides: Object.fromEntries(wanted), promptTokens, isAuto: mode === 'auto' }, signal)
      .catch((error: unknown) => {
        admit([])
        throw error
      })
    admit(admission.sides)
    const { plan, controller } = dispatch.answerOf(answer)
    const planned = plan.sides
    return {
      ...plan,
      mode,
      controller,
      handle: (input, nowMs) => this.#options.machine.handle({ ...input, answer }, nowMs) as ReturnType<EndpointPlan['handle']>,
      sides: {
        ...(planned.local && {
          local: { ...planned.local, endpoint: this.#waiting(sides.local!.endpoint), promptTokens: counted.local },
        }),
        ...(planned.remote && { remote: { ...sides.remote!, ...planned.remote, promptTokens: counted.remote } }),
      },
      ...(ways && {
        ways: explainWays({ ways, mode, request, allowed: readers, sides, plan, exhausted: admission.exhausted }),
      }),
      get exhausted() {
        return admission.exhausted
      },
      costOf: (side) => admission.costOf(side),
      start: (side, run) => admission.start(side, run),
      ended: (tokens) => {
        admission.end()
        this.#handle({ kind: 'end', answer, tokens })
      },
    }
  }

  #handle(input: DispatchInput): void {
    const { machine, clock } = this.#options
    machine.handle(input, clock.nowMs())
  }

  modeOf({ mode }: AnswerRequest): DeviceMode {
    return isDeviceMode(mode) ? mode : this.#options.mode
  }

  #questionOf({ local, remotes, promptTokens }: Readers, mode: DeviceMode, request: AnswerRequest): DispatchQuestion {
    const { maxTokens, tokensPerS, isWhole } = request
    const [remote, ...instead] = remotes.map(({ candidate }) => this.#askedRemote(candidate))
    const sides = { local: local && this.#askedLocal(local.candidate), remote }
    return { mode, sides, promptTokens, maxTokens, tokensPerS, isWhole, ...(instead.length > 0 && { instead }) }
  }

  #askedLocal(candidate: LocalCandidate) {
    const { model, prefillTokensPerS, flopsPerToken } = candidate
    return { ...this.#askedSide(candidate), model, prefillTokensPerS, flopsPerToken }
  }

  #askedRemote(candidate: RemoteCandidate) {
    const { name, announced, announcedMsPerToken } = candidate
    return { ...this.#askedSide(candidate), name, announced, announcedMsPerToken }
  }

  #askedSide({ spender, continues, pauses }: LocalCandidate | RemoteCandidate) {
    return { continues, pauses, costs: this.#options.budget.costs(spender) }
  }

  /** Every way that there is, whether or not the mode allows it, with what it would take. */
  #foreseen({ slm, server, planned, hat }: Candidates, question: DispatchQuestion): ForeseenWay[] {
    const present = [slm, server, planned, hat].filter((candidate) => candidate !== undefined)
    return present.map((candidate) => {
      const sides = 'model' in candidate ? { local: this.#askedLocal(candidate) } : { remote: this.#askedRemote(candidate) }
      const [forecast] = this.#options.dispatch.forecasts({ ...question, sides, instead: undefined })
      return { candidate, forecast: forecast! }
    })
  }

  /** The small model, whose answers wait for each other. */
  #waiting(endpoint: Endpoint): Endpoint {
    const { slots } = this.#options
    return {
      model: endpoint.model,
      async *answer(request, signal) {
        const free = await slots.take(signal)
        try {
          yield* endpoint.answer(request, signal)
        } finally {
          free()
        }
      },
    }
  }
}

type Sides = { readonly local?: LocalCandidate | undefined; readonly remote?: RemoteCandidate | undefined }
type Counted = Readonly<Partial<Record<Side, number | undefined>>>

/** A way of answering that can read the prompt. */
interface Reader<C> {
  readonly candidate: C
  /** Of the prompt, as it counts them; undefined: it does not tell. */
  readonly tokens: number | undefined
}

/** Those that can read a prompt, and its length. */
interface Readers {
  readonly local?: Reader<LocalCandidate> | undefined
  readonly remotes: readonly Reader<RemoteCandidate>[]
  readonly promptTokens: number
}

const maxPromptTokensOf = (candidate: LocalCandidate | RemoteCandidate) =>
  'maxPromptTokens' in candidate ? candidate.maxPromptTokens : undefined

/**
 * Those that can read the prompt, and its length: as far as each of them counts it, and that of the one that is sure to read it.
 * @throws BrimError where there is none
 */
async function readersOf(allowed: AllowedWays, mode: DeviceMode, request: AnswerRequest, signal: AbortSignal): Promise<Readers> {
  const { local, remotes } = allowed
  const [hat] = remotes
  // The split model must hold the prompt; the small one is only looked at in time, as it may never be needed.
  if (mode === 'private' && hat) {
    const tokens = await tokensFor(hat, request, signal)
    if (local?.endpoint.model.tokenizer) await request.prompt.check(local.endpoint.model, request.client, signal)
    const asBackup = local && { local: { candidate: local, tokens: undefined } }
    return { ...asBackup, remotes: [{ candidate: hat, tokens }], promptTokens: tokens ?? 0 }
  }
  const failures: unknown[] = []
  const count = async <C extends LocalCandidate | RemoteCandidate>(candidate: C): Promise<Reader<C> | undefined> => {
    try {
      return { candidate, tokens: await tokensFor(candidate, request, signal) }
    } catch (error) {
      if (signal.aborted || !(error instanceof BrimError) || !unreadable.has(error.code)) throw error
      failures.push(error)
      return undefined
    }
  }
  const onDevice = local && (await count(local))
  const elsewhere: Reader<RemoteCandidate>[] = []
  for (const candidate of remotes) {
    const reader = await count(candidate)
    if (reader) elsewhere.push(reader)
  }
  if (!onDevice && elsewhere.length === 0) throw failures[0]
  const promptTokens =
    onDevice?.tokens ?? elsewhere.find(({ tokens }) => tokens !== undefined)?.tokens ?? estimatedTokens(request)
  return { local: onDevice, remotes: elsewhere, promptTokens }
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
