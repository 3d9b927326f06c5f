import { defaultTailShare } from '../../../../core/policy/disco/dispatch.ts'
import type { ReportedSide } from '../../../../core/policy/disco/state.ts'
import type { Scenario } from '../../scenario/scenario.ts'
import { experimentsOf, scenarioFor } from '../experiments.ts'
import { deviceCosts, deviceProfiles, paper } from './profiles.ts'

/** How requests reach the sides; the paper's file says how. */
export type Method = 'plan' | 'beside' | 'alone'

/** One experiment, but for its seed. */
export interface Setting {
  readonly measured: 'ttft' | 'tail' | 'cost' | 'overhead'
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

export const settingsOf = (isQuick: boolean): readonly Setting[] => experimentsOf<Setting>(paper, isQuick)

/** t_m of Eq. 6, as the share of the server's starts that it is enough for. */
export const paperPatience = paper.constants.patiencePercent! / 100

/** @param answers tokens of each answer; 1: the race for the first token alone, which what follows does not change */
export function scenarioOf(setting: Setting, seed: number, requests: number, answers: number): Scenario {
  const { server, constrained, budget, method, migrates, migrationCounts, tailShare = defaultTailShare } = setting
  const profile = deviceProfiles.find(({ name }) => name === setting.device)!
  const patience = setting.patience ?? (migrates === 'paper' ? paperPatience : undefined)
  return scenarioFor(paper, setting, {
    name: `${server}, ${setting.device}, ${constrained} limited to ${budget}, ${method}`,
    seed,
    devices: [{ ...paper.scenario.device, board: profile.board, smallModels: [profile.model] }],
    policies: {
      disco: {
        constrained,
        share: budget,
        ...(patience !== undefined && { patience }),
        ...(migrationCounts !== undefined && { migrationCounts }),
        tailShare,
        deviceDollarsPerToken: deviceCosts(profile, constrained),
      },
    },
    workload: { requests, outputTokens: answers, maxOutputTokens: answers },
  })
}
