import type { WorkloadName } from './workload.ts'

/** How agents and the bridge are started. Everything else of them is the same. */
export interface Strategy {
  readonly agent: readonly string[]
  bridge(workload: WorkloadName): readonly string[]
}

const tokens = (budget: number, prompts: number, frame: number) =>
  ['--token-budget', String(budget), '--prompt-tokens', String(prompts), '--frame-tokens', String(frame)] as const
/** A prompt in one step, whatever else waits. */
const wholePrompts = () => tokens(2_048, 2_048, 2_048)
/** Of the paper: cloud-side chunks of so many tokens. */
const sarathiChunk: Record<WorkloadName, number> = { short: 128, long: 256 }
const sarathi = (workload: WorkloadName) => tokens(sarathiChunk[workload], sarathiChunk[workload], 2_048)
const ours = () => []

const table = {
  hat: { agent: [], bridge: ours },
  'hat-int8': { agent: ['--wire', 'int8'], bridge: ours },
  'u-shape': { agent: ['--strategy', 'u-shape'], bridge: wholePrompts },
  'u-shape-lean': { agent: ['--strategy', 'u-shape-lean'], bridge: wholePrompts },
  'u-sarathi': { agent: ['--strategy', 'u-sarathi'], bridge: sarathi },
  'u-medusa': { agent: ['--strategy', 'u-medusa'], bridge: wholePrompts },
  // The ablation, Table V: SD speculative decoding, PC prompt chunking, PD parallel drafting. None of them is u-shape, all hat.
  PC: { agent: ['--drafter', 'none'], bridge: ours },
  SD: { agent: ['--prefill', 'whole-all', '--no-draft-ahead'], bridge: wholePrompts },
  'SD+PD': { agent: ['--prefill', 'whole-all'], bridge: wholePrompts },
  'SD+PC': { agent: ['--no-draft-ahead'], bridge: ours },
} as const satisfies Record<string, Strategy>

export type StrategyName = keyof typeof table
export const strategies: Readonly<Record<StrategyName, Strategy>> = table
export const strategyNames = Object.keys(table) as StrategyName[]

/** Against each other under load. */
export const compared = ['hat', 'u-sarathi', 'u-medusa', 'u-shape'] as const satisfies readonly StrategyName[]
/** Rows of the ablation, as the paper has them. */
export const ablation = [
  { row: 'none', strategy: 'u-shape' },
  { row: 'PC', strategy: 'PC' },
  { row: 'SD', strategy: 'SD' },
  { row: 'SD+PD', strategy: 'SD+PD' },
  { row: 'SD+PC', strategy: 'SD+PC' },
  { row: 'SD+PC+PD', strategy: 'hat' },
] as const satisfies readonly { readonly row: string; readonly strategy: StrategyName }[]

/** int8 states change the answers; those of all others are the reference's. */
export const isExact = (strategy: StrategyName): boolean => strategy !== 'hat-int8'
