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
import { type Candidates, type ChosenSides, sidesOf } from './modes.ts'
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

  /** Checks before any work that the mode can answer the request. @throws FieldError, BrimError as `sidesOf` */
  check(request: AnswerRequest): void {
    const { candidates, problem } = this.#options
    sidesOf(this.modeOf(request), request, candidates(), problem)
  }

  /** Those that some request could be answered in now. */
  get modes(): DeviceMode[] {
    const { candidates, problem } = this.#options
    const present = candidates()
    return deviceModes.filter((mode) => {
      try {
        return sidesOf(mode, anyRequest, present, problem)
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
    const allowed = sidesOf(mode, request, candidates(), problem)
    const { sides, counted, promptTokens } = await readable(allowed, mode, request, signal)
    const { maxTokens, tokensPerS, isWhole } = request
    const question = { mode, sides: this.#asked(sides), promptTokens, maxTokens, tokensPerS, isWhole }
    this.#answers += 1
    const answer = this.#answers
    this.#handle({ kind: 'ask', answer, question })
    const draft = dispatch.draftOf(answer)
    const admit = (admitted: readonly Side[]) =>
      this.#handle({ kind: 'admit', answer, sides: admitted, sharesTokens: shareTokens(sides) })
    const wanted = both.flatMap((side): [Side, WantedSide][] => {
      const candidate = sides[side]
      if (!candidate) return []
      const estimate = { promptTokens: counted[side] ?? promptTokens, tokens: draft.work.tokens }
      const limits = { promptTokens: maxPromptTokensOf(candidate)?.(request) ?? estimate.promptTokens, tokens: maxTokens }
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
    const { local, remote } = plan.sides
    return {
      ...plan,
      mode,
      controller,
      handle: (input, nowMs) => this.#options.machine.handle({ ...input, answer }, nowMs) as ReturnType<EndpointPlan['handle']>,
      sides: {
        ...(local && { local: { ...local, endpoint: this.#waiting(sides.local!.endpoint), promptTokens: counted.local } }),
        ...(remote && { remote: { ...sides.remote!, ...remote, promptTokens: counted.remote } }),
      },
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

  #asked({ local, remote }: ChosenSides): DispatchQuestion['sides'] {
    const { budget } = this.#options
    const common = ({ spender, continues, pauses }: LocalCandidate | RemoteCandidate) => ({
      continues,
      pauses,
      costs: budget.costs(spender),
    })
    return {
      local: local && {
        ...common(local),
        model: local.model,
        prefillTokensPerS: local.prefillTokensPerS,
        flopsPerToken: local.flopsPerToken,
      },
      remote: remote && { ...common(remote), name: remote.name, announced: remote.announced },
    }
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

/** The sides that can read a prompt, and its length. */
interface Readable {
  readonly sides: ChosenSides
  readonly counted: Readonly<Partial<Record<Side, number | undefined>>>
  readonly promptTokens: number
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
