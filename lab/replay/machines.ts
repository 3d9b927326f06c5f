import { blockwiseKv, type KvLimits } from '../../core/policy/admission/kv.ts'
import { BudgetMachine, type BudgetSettings } from '../../core/policy/disco/budget-machine.ts'
import { DispatchEstimates } from '../../core/policy/disco/dispatch-estimates.ts'
import { DispatchMachine, type DispatchMachineSettings } from '../../core/policy/disco/dispatch-machine.ts'
import { SpendingBook, type SpentRow } from '../../core/policy/disco/spending-book.ts'
import type { HistogramWire } from '../../core/policy/estimate/forgetting-histogram.ts'
import { HatMachine } from '../../core/policy/hat/hat-machine.ts'
import type { HatRules } from '../../core/policy/hat/hat-steps.ts'
import type { Machine } from '../../core/policy/machine.ts'
import { DeviceExpansion, type DeviceExpansionSettings } from '../../core/policy/pice/device-expansion.ts'
import { ExpansionScheduler, type RecordedExpansionSettings } from '../../core/policy/pice/expansion-scheduler.ts'
import { SmallModelPool, type SmallModelPoolSettings } from '../../core/policy/pice/small-model-pool.ts'
import { ServingMachine } from '../../core/policy/serving/serving-machine.ts'
import type { ServingRules } from '../../core/policy/serving/serving-rules.ts'
import { createPolicy, type PolicyName, type PolicyOptions } from '../../core/policy/tokenflow/named-policies.ts'
import { dispatchRule } from '../baselines/sketch-policies.ts'
import type { CreateMachine } from './replay.ts'

interface ServingSettings extends ServingRules {
  readonly kv: { readonly device: KvLimits; readonly answer: KvLimits }
  readonly policy: { readonly name: PolicyName; readonly options: PolicyOptions }
}

function servingMachine({ kv, policy: { name, options }, ...rules }: ServingSettings): ServingMachine {
  const sizes = { device: blockwiseKv(kv.device), answer: blockwiseKv(kv.answer) }
  return new ServingMachine({ ...rules, sizes, policy: createPolicy(name, options) })
}

export const machines: Readonly<Record<string, CreateMachine>> = {
  budget(settings) {
    const { windowMs, spent, ...own } = settings as BudgetSettings & { windowMs: number; spent: readonly SpentRow[] }
    return new BudgetMachine(own, new SpendingBook(windowMs, spent)) as Machine<unknown, unknown>
  },
  disco(settings) {
    const { known, ...own } = settings as DispatchMachineSettings & { known: Record<string, HistogramWire | readonly number[]> }
    return new DispatchMachine(own, new DispatchEstimates((name) => known[name])) as Machine<unknown, unknown>
  },
  'device-expansion': (settings) => new DeviceExpansion(settings as DeviceExpansionSettings) as Machine<unknown, unknown>,
  'expansion-scheduler': (settings) => {
    const { policy, expansionsPerJob, ...own } = settings as RecordedExpansionSettings
    return new ExpansionScheduler(dispatchRule(policy, expansionsPerJob), own) as Machine<unknown, unknown>
  },
  hat: (settings) => new HatMachine(settings as HatRules) as Machine<unknown, unknown>,
  serving: (settings) => servingMachine(settings as ServingSettings) as Machine<unknown, unknown>,
  'small-model-pool': (settings) => new SmallModelPool(settings as SmallModelPoolSettings) as Machine<unknown, unknown>,
}
