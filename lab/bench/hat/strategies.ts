import { type Wire, wires } from '../../../core/wire/protocol/frame.ts'
import type { WorkloadName } from './workload.ts'

/** The options of agents and bridge in the laboratory's program that differ between strategies. */
export interface Strategy {
  readonly agent: readonly string[]
  bridge(workload: WorkloadName): readonly string[]
}

const tokens = (budget: number, prompts: number, frame: number) =>
  ['--token-budget', String(budget), '--prompt-tokens', String(prompts), '--frame-tokens', String(frame)] as const
/** Each prompt in one step, even if other streams wait. */
const wholePrompts = () => tokens(2_048, 2_048, 2_048)
/** The paper's chunk sizes at the cloud, in tokens. */
const sarathiChunk: Record<WorkloadName, number> = { short: 128, long: 256 }
const sarathi = (workload: WorkloadName) => tokens(sarathiChunk[workload], sarathiChunk[workload], 2_048)
const defaults = () => []
/** States as in the paper. */
const uncoded = ['--wire', 'fp16'] as const
/** The device computes a prompt before it sends any of it, drafts nothing, and resumes no cached prefix. */
const uShape = (prefill: 'whole' | 'whole-all') => [
  ...['--prefill', prefill, '--drafter', 'none', '--no-draft-ahead', '--no-reuse'],
  ...uncoded,
]

const table = {
  hat: { agent: [], bridge: defaults },
  'hat-fp16': { agent: uncoded, bridge: defaults },
  'hat-int8': { agent: ['--wire', 'int8'], bridge: defaults },
  // As the paper has it: its adapter, which reads no deep states, without lookup; states in fp16; a session before its rows.
  'hat-paper': {
    agent: ['--paper-adapter', '--drafter', 'adapter', '--wire', 'fp16', '--no-early', '--no-reuse'],
    bridge: defaults,
  },
  'chunks-fixed': { agent: ['--drafter', 'none', '--no-early', '--no-reuse', ...uncoded], bridge: () => ['--fixed-chunks'] },
  chunks: { agent: ['--drafter', 'none', '--no-early', '--no-reuse', ...uncoded], bridge: defaults },
  'hat-fixed': { agent: [], bridge: () => ['--fixed-chunks'] },
  // Drafts end as in the paper (HAT Eq. 5), not where another token does not pay.
  'hat-threshold': {
    agent: ['--no-draft-ahead', '--draft-threshold', '0.6', '--draft-limit', '8', ...uncoded],
    bridge: defaults,
  },
  'u-shape': { agent: uShape('whole-all'), bridge: wholePrompts },
  'u-shape-lean': { agent: uShape('whole'), bridge: wholePrompts },
  'u-sarathi': { agent: uShape('whole-all'), bridge: sarathi },
  'u-medusa': { agent: [...uShape('whole-all'), '--medusa'], bridge: wholePrompts },
  // The ablation, Table V: SD speculative decoding, PC prompt chunking, PD parallel drafting. Without any it is u-shape,
  // with all of them hat-fp16.
  PC: { agent: ['--drafter', 'none', ...uncoded], bridge: defaults },
  SD: { agent: ['--prefill', 'whole-all', '--no-draft-ahead', ...uncoded], bridge: wholePrompts },
  'SD+PD': { agent: ['--prefill', 'whole-all', ...uncoded], bridge: wholePrompts },
  'SD+PC': { agent: ['--no-draft-ahead', ...uncoded], bridge: defaults },
} as const satisfies Record<string, Strategy>

export type StrategyName = keyof typeof table
export const strategies: Readonly<Record<StrategyName, Strategy>> = table
export const strategyNames = Object.keys(table) as StrategyName[]

export const compared = ['hat', 'u-sarathi', 'u-medusa', 'u-shape'] as const satisfies readonly StrategyName[]
/** Rows of the ablation, in the paper's order. */
export const ablation = [
  { row: 'none', strategy: 'u-shape' },
  { row: 'PC', strategy: 'PC' },
  { row: 'SD', strategy: 'SD' },
  { row: 'SD+PD', strategy: 'SD+PD' },
  { row: 'SD+PC', strategy: 'SD+PC' },
  { row: 'SD+PC+PD', strategy: 'hat-fp16' },
] as const satisfies readonly { readonly row: string; readonly strategy: StrategyName }[]

/** How its states travel up. */
export function wireOf(strategy: StrategyName): Wire {
  const { agent }: Strategy = strategies[strategy]
  const at = agent.indexOf('--wire')
  return wires.find((wire) => at >= 0 && agent[at + 1] === wire) ?? 'fp16c'
}

/** What HAT's TTFT and TBT have of each part: a row has one part more than the row before it, and the last of a branch is HAT. */
export const attribution = {
  ttftMs: [
    { part: 'U-shape', strategy: 'u-shape' },
    { part: 'lean reply: one deep state', strategy: 'u-shape-lean' },
    { part: 'chunks of fixed size, overlapped', strategy: 'chunks-fixed' },
    { part: 'chunks of HAT Eq. 3', strategy: 'chunks' },
    { part: '0-RTT: rows with the opening', strategy: 'hat-fp16' },
    { part: 'coded states', strategy: 'hat' },
    { part: 'int8 states', strategy: 'hat-int8' },
  ],
  tbtMs: [
    { part: 'U-shape', strategy: 'u-shape' },
    { part: 'drafts that end by η', strategy: 'hat-threshold' },
    { part: 'drafts that end by their gain', strategy: 'SD+PC' },
    { part: 'drafted ahead', strategy: 'hat-fp16' },
    { part: 'coded states', strategy: 'hat' },
  ],
} as const satisfies Record<string, readonly { readonly part: string; readonly strategy: StrategyName }[]>

/** Whether answers must equal the reference's; int8 states change them. */
export const isExact = (strategy: StrategyName): boolean => wireOf(strategy) !== 'int8'
