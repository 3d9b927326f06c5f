import { AnswerDispatcher } from '../../../core/policy/disco/answer-dispatcher.ts'
import type { Estimates } from '../../../core/policy/disco/dispatch-estimates.ts'
import { SmallModelUse } from '../../../core/policy/disco/small-model-use.ts'
import { remoteEstimate, type StartEstimate } from '../../../core/policy/disco/start-estimates.ts'
import { otherSide, type Side, type StartDelays, sideNamed, type TokenCosts } from '../../../core/policy/disco/state.ts'
import type { ForgettingHistogram } from '../../../core/policy/estimate/forgetting-histogram.ts'
import type { Simulation } from '../../simulate/kernel/simulation.ts'
import { type DeviceProfile, deviceTtftMs } from '../../simulate/paper/disco/profiles.ts'
import { type MethodName, methods } from './methods.ts'
import { type ReplayedAnswer, replayAnswer } from './replay.ts'
import { simulatedDevice, simulatedServer } from './simulated-side.ts'
import type { ReplayRequest } from './workload.ts'

export type SidePrices = Readonly<Record<Side, TokenCosts>>

/** A device that answers requests by one method. */
export interface ReplayedDevice {
  readonly method: MethodName
  readonly budget: number | null
  readonly profile: DeviceProfile
  /** Undefined: answers do not migrate. */
  readonly prices: SidePrices | undefined
  /** F as this device has learned it: of a server that it has stopped, it knows only how long it has waited. Mutable. */
  readonly ttftMs: ForgettingHistogram
  /** Of the reader. */
  readonly tokensPerS: number
  /** That requests allow. */
  readonly maxTokens: number
}

/** Of the requests so far. */
export interface KnownLengths {
  readonly prompts: ForgettingHistogram
  readonly answers: ForgettingHistogram
}

/** The agent's dispatcher, which knows the share that its earlier answers have used. @param lengths to which the caller adds */
export function dispatcherOf(device: ReplayedDevice, lengths: KnownLengths): AnswerDispatcher {
  const { method, budget, tokensPerS } = device
  const constrained = sideNamed(methods[method].constrained)
  const settings = { constrained, share: budget ?? 0, patienceMs: undefined, tokensPerS }
  return new AnswerDispatcher(settings, estimatesOf(device, lengths), new SmallModelUse(1))
}

/** Plans the answer by the device's dispatcher, and replays it. */
export function answerBy(
  simulation: Simulation,
  device: ReplayedDevice,
  dispatcher: AnswerDispatcher,
  request: ReplayRequest,
  until: 'first token' | 'end',
): ReplayedAnswer {
  const { profile, prices, maxTokens } = device
  const { promptTokens } = request
  const plan = dispatcher
    .ask({
      mode: 'auto',
      sides: {
        remote: { continues: true, pauses: false, costs: prices?.remote, name: 'server' },
        local: { continues: true, pauses: true, costs: prices?.local, model: profile.name },
      },
      promptTokens,
      maxTokens,
      ...baselineOf(device, request),
    })
    .begin(['local', 'remote'])
  const sides = { remote: simulatedServer(simulation, request), local: simulatedDevice(simulation, profile) }
  return replayAnswer(simulation, plan, sides, request.outputTokens, until)
}

/** Lengths are learned once for all devices. */
function estimatesOf({ method, profile, prices, ttftMs }: ReplayedDevice, { prompts, answers }: KnownLengths): Estimates {
  const { routing, constrained } = methods[method]
  // Where nothing depends on F, it is not worth its time.
  const usesTtft = prices !== undefined || (routing !== 'chance' && constrained === 'device')
  return {
    promptTokens: { record() {}, sharesAt: (length) => prompts.sharesAt(length), cdf: (length) => prompts.cdf(length) },
    answerTokens: { record() {}, weight: answers.weight, meanResidual: (tokens) => answers.meanResidual(tokens) },
    local: () => ({ ...unlearned, startMs: (tokens) => deviceTtftMs(profile, tokens) }),
    // Servers of the traces have even gaps, and are never silent.
    remote: () => ({
      ...(usesTtft ? remoteEstimate({ starts: ttftMs }) : { ...unlearned, ttftMs, isSilent: false, firstMs: () => 0 }),
      lateMs: never,
      gap() {},
    }),
    answered() {},
  }
}

const never = Number.POSITIVE_INFINITY

const unlearned: StartEstimate = { startMs: () => 0, msPerToken: 0, isKnown: true, firstToken() {}, canceled() {}, gap() {} }

/** One side alone, always or by chance; nothing where DiSCo plans. */
function baselineOf({ method, budget }: ReplayedDevice, { chance }: ReplayRequest): { readonly dispatch?: StartDelays } {
  const { routing } = methods[method]
  if (routing === 'plan') return {}
  const constrained = sideNamed(methods[method].constrained)
  const side = routing === 'chance' && chance < (budget ?? 0) ? constrained : otherSide(constrained)
  return { dispatch: { local: Number.POSITIVE_INFINITY, remote: Number.POSITIVE_INFINITY, [side]: 0 } }
}
