import { dispatchOf } from '../../../core/policy/disco/dispatch.ts'
import { expectedRemaining } from '../../../core/policy/disco/estimates.ts'
import { serverEstimate } from '../../../core/policy/disco/start-estimates.ts'
import { preferredSide } from '../../../core/policy/disco/start-times.ts'
import { type Dispatch, otherSide, type Side, type TokenCosts } from '../../../core/policy/disco/state.ts'
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
  const { routing, constrained } = methods[method]
  const { promptTokens, outputTokens } = request
  // Where nothing depends on F, it is not worth its time.
  const usesTtft = prices !== undefined || (routing !== 'chance' && constrained === 'device')
  const server = usesTtft ? serverEstimate(device.ttftMs) : undefined
  return replayAnswer(
    simulation,
    {
      sides: {
        server: { ...serverTraits, costs: prices?.server, startMs: (tokens) => server?.startMs(tokens) ?? 0 },
        device: { ...deviceTraits, costs: prices?.device, startMs: (tokens) => deviceTtftMs(profile, tokens) },
      },
      dispatch: dispatchBy(device, request, lengths, server?.ttftMs ?? device.ttftMs),
      tokensPerS,
      promptTokens,
      preferred: prices && preferredSide('auto', prices),
      expectedRemaining: (tokens) => expectedRemaining(lengths.answers, tokens, maxTokens - tokens),
    },
    { server: simulatedServer(simulation, request), device: simulatedDevice(simulation, profile) },
    outputTokens,
    until,
    {
      firstToken(side, ms, tokens) {
        if (side === 'server') server?.firstToken(ms, tokens)
      },
      canceled(side, ms, tokens) {
        if (side === 'server') server?.canceled(ms, tokens)
      },
    },
  )
}

const serverTraits = { continues: true, pauses: false }
const deviceTraits = { continues: true, pauses: true }

function dispatchBy(
  { method, budget }: ReplayedDevice,
  { promptTokens, chance }: ReplayRequest,
  { prompts: promptLengths }: KnownLengths,
  serverTtftMs: Distribution,
): Dispatch {
  const { routing, constrained } = methods[method]
  const share = budget ?? 0
  if (routing === 'plan') return dispatchOf(promptTokens, { constrained, share, serverTtftMs, promptLengths })
  return alone(routing === 'chance' && chance < share ? constrained : otherSide(constrained))
}

const alone = (side: Side): Dispatch => ({ device: Number.POSITIVE_INFINITY, server: Number.POSITIVE_INFINITY, [side]: 0 })
