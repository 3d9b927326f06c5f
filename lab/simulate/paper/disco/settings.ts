import type { ReportedSide } from '../../../../core/policy/disco/state.ts'
import { Scenario } from '../../scenario/scenario.ts'
import { deviceCosts, deviceProfiles, readingTokensPerS } from './profiles.ts'
import { paperServers, promptTokens, serverTokenMs } from './servers.ts'

/**
 * How requests reach the sides. 'alone': by chance to one of them; 'beside': the other side starts in any case, the limited one
 * by chance; 'plan': DiSCo.
 */
export type Method = 'plan' | 'beside' | 'alone'

/** One experiment, but for its seed. */
export interface Setting {
  readonly server: string
  readonly device: string
  readonly constrained: ReportedSide
  /** b. */
  readonly budget: number
  readonly method: Method
  /** 'paper': with the paper's t_m; 'brim': with this project's. */
  readonly migrates: 'no' | 'paper' | 'brim'
  /** A suspected cause that is varied: of the server's starts, that t_m is enough for; whether t_m counts the answer; α. */
  readonly patience?: number
  readonly migrationCounts?: 'answer' | 'prompt'
  readonly tailShare?: number
}

export interface Plan {
  readonly seeds: number
  readonly ttft: { readonly requests: number; readonly budgets: readonly number[] }
  /** Whole answers. */
  readonly cost: { readonly requests: number; readonly budgets: readonly number[]; readonly seeds: number }
  /** Of Fig. 9. */
  readonly batches: number
}

export const constrainedSides: readonly ReportedSide[] = ['server', 'device']
const budgets = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]

/** The paper: 1,000 requests, means of ten runs. */
export const fullPlan: Plan = {
  seeds: 10,
  ttft: { requests: 1_000, budgets },
  cost: { requests: 200, budgets: [0.1, 0.3, 0.5, 0.7, 0.9], seeds: 3 },
  batches: 200,
}

export const quickPlan: Plan = {
  seeds: 2,
  ttft: { requests: 1_000, budgets: [0.1, 0.3, 0.5, 0.7, 0.9] },
  cost: { requests: 60, budgets: [0.3, 0.9], seeds: 1 },
  batches: 100,
}

/** The paper's limit of generation, which chat models reach on nearly all of Alpaca's instructions. */
export const outputTokens = 128
/** Devices of a run: a request meets one that is free, as the paper's do. What one learns, all know. */
const devices = 200
/** Of the server and of prompts, that are known before the first request (§4.2: by profiling). */
const profiledStarts = 1_000
/** t_m of Eq. 6 is so much of the server's TTFT that this share of migrations is in time: the tokens in hand of Table 3 need it. */
export const paperPatience = 0.98

export function ttftSettings({ ttft }: Plan): Setting[] {
  return settingsOf((server, device, constrained): Setting[] => [
    // Neither method with a budget of 0 uses the limited side.
    { server, device, constrained, budget: 0, method: 'alone', migrates: 'no' },
    ...ttft.budgets.flatMap((budget) =>
      (['plan', 'beside', 'alone'] as const).map(
        (method): Setting => ({ server, device, constrained, budget, method, migrates: 'no' }),
      ),
    ),
  ])
}

export function costSettings({ cost }: Plan): Setting[] {
  return settingsOf((server, device, constrained) =>
    cost.budgets.flatMap((budget) =>
      (['no', 'paper', 'brim'] as const).map(
        (migrates): Setting => ({ server, device, constrained, budget, method: 'plan', migrates }),
      ),
    ),
  )
}

/** Percentiles of the server's starts that are tried for t_m. */
const patiences = [0.97, 0.975, 0.98, 0.985, 0.99, 0.995]
/** α that is tried. */
export const otherTailShare = 0.1

/** Whole answers with other t_m: what Table 3 may mean. */
export function overheadSettings({ cost }: Plan): Setting[] {
  const migrating = { method: 'plan', migrates: 'paper' } as const
  const others = paperServers.flatMap(({ name: server }) => {
    const [budget] = cost.budgets
    const { name: device } = deviceProfiles[0]!
    return patiences.map(
      (patience): Setting => ({ server, device, constrained: 'device', budget: budget!, patience, ...migrating }),
    )
  })
  const withAnswer = settingsOf((server, device, constrained): Setting[] =>
    constrained === 'device'
      ? []
      : cost.budgets.map((budget) => ({ server, device, constrained, budget, migrationCounts: 'answer', ...migrating })),
  )
  return [...others, ...withAnswer]
}

/** LLaMA with the device limited most, and another α. */
export function tailSettings({ ttft }: Plan): Setting[] {
  const budget = Math.min(...ttft.budgets)
  return deviceProfiles.map(({ name: device }) => ({
    server: 'LLaMA',
    device,
    constrained: 'device',
    budget,
    method: 'plan',
    migrates: 'no',
    tailShare: otherTailShare,
  }))
}

const settingsOf = (of: (server: string, device: string, constrained: ReportedSide) => Setting[]): Setting[] =>
  paperServers.flatMap((server) =>
    deviceProfiles.flatMap((device) => constrainedSides.flatMap((constrained) => of(server.name, device.name, constrained))),
  )

const dispatchOf = { plan: 'plan', beside: 'chance-beside', alone: 'chance' } as const

/** @param answers tokens of each answer; 1: the race for the first token alone, which what follows does not change */
export function scenarioOf(setting: Setting, seed: number, requests: number, answers: number): Scenario {
  const { constrained, budget, method, migrates, patience = paperPatience, migrationCounts = 'prompt', tailShare } = setting
  const { ttftMs, price } = paperServers.find(({ name }) => name === setting.server)!
  const profile = deviceProfiles.find(({ name }) => name === setting.device)!
  return Scenario.parse({
    name: `${setting.server}, ${setting.device}, ${constrained} limited to ${budget}, ${method}`,
    seed,
    server: { ttftMs, tokenMs: serverTokenMs, dollarsPerToken: price },
    devices: [
      {
        name: 'phones',
        count: devices,
        board: profile.board,
        smallModels: [profile.model],
        link: { up: 1e6, down: 1e6 },
        throttles: false,
      },
    ],
    policies: {
      disco: {
        constrained,
        share: budget,
        autoPatienceS: null,
        dispatch: dispatchOf[method],
        migrates: migrates !== 'no',
        ...(migrates === 'paper' && { patience, migrationCounts, returns: false }),
        ...(tailShare !== undefined && { tailShare }),
        learn: 'group',
        profiledStarts,
        deviceDollarsPerToken: deviceCosts(profile, constrained),
      },
    },
    workload: {
      requests,
      arrivals: { kind: 'poisson', perS: 1 / 30 },
      promptTokens,
      outputTokens: answers,
      maxOutputTokens: answers,
      readers: [{ tokensPerS: readingTokensPerS, share: 1 }],
      modes: [{ mode: 'auto' }],
    },
  })
}
