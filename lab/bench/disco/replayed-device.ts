import { dispatchOf } from '../../../core/policy/disco/dispatch.ts'
import { expectedRemaining } from '../../../core/policy/disco/estimates.ts'
import { remoteEstimate } from '../../../core/policy/disco/start-estimates.ts'
import { preferredSide } from '../../../core/policy/disco/start-times.ts'
import { type Dispatch, otherSide, type Side, sideNamed, type TokenCosts } from '../../../core/policy/disco/state.ts'
import type { Distribution } from '../../../core/policy/estimate/distribution.ts'
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

/** Plans as the agent does, from the same parts, and replays the answer. */
export function answerBy(
  simulation: Simulation,
  device: ReplayedDevice,
  request: ReplayRequest,
  lengths: KnownLengths,
  until: 'first token' | 'end',
): ReplayedAnswer {
  const { method, profile, prices, tokensPerS, maxTokens } = device
  const { routing } = methods[method]
  const constrained = sideNamed(methods[method].constrained)
  const { promptTokens, outputTokens } = request
  // Where nothing depends on F, it is not worth its time.
  const usesTtft = prices !== undefined || (routing !== 'chance' && constrained === 'local')
  const server = usesTtft ? remoteEstimate(device.ttftMs) : undefined
  return replayAnswer(
    simulation,
    {
      sides: {
        remote: { ...remoteTraits, costs: prices?.remote, startMs: (tokens) => server?.startMs(tokens) ?? 0 },
        local: { ...localTraits, costs: prices?.local, startMs: (tokens) => deviceTtftMs(profile, tokens) },
      },
      dispatch: dispatchBy(device, request, lengths, server?.ttftMs ?? device.ttftMs),
      tokensPerS,
      promptTokens,
      preferred: prices && preferredSide('auto', prices),
      expectedRemaining: (tokens) => expectedRemaining(lengths.answers, tokens, maxTokens - tokens),
    },
    { remote: simulatedServer(simulation, request), local: simulatedDevice(simulation, profile) },
    outputTokens,
    until,
    {
      firstToken(side, ms, tokens) {
        if (side === 'remote') server?.firstToken(ms, tokens)
      },
      canceled(side, ms, tokens) {
        if (side === 'remote') server?.canceled(ms, tokens)
      },
    },
  )
}

const remoteTraits = { continues: true, pauses: false }
const localTraits = { continues: true, pauses: true }

function dispatchBy(
  { method, budget }: ReplayedDevice,
  { promptTokens, chance }: ReplayRequest,
  { prompts: promptLengths }: KnownLengths,
  remoteTtftMs: Distribution,
): Dispatch {
  const { routing } = methods[method]
  const constrained = sideNamed(methods[method].constrained)
  const share = budget ?? 0
  if (routing === 'plan') return dispatchOf(promptTokens, { constrained, share, remoteTtftMs, promptLengths })
  return alone(routing === 'chance' && chance < share ? constrained : otherSide(constrained))
}

const alone = (side: Side): Dispatch => ({ local: Number.POSITIVE_INFINITY, remote: Number.POSITIVE_INFINITY, [side]: 0 })
