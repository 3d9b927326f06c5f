import { type Case, nameOf, type RecordingName, type ServerName, type SetupName, servers } from './setups.ts'

const all = Object.keys(servers) as ServerName[]
export const bursts = ['4090 (a)', '4090 (b)', 'H200 (a)', 'H200 (b)'] as const
export const poissons = ['4090 (c)', '4090 (d)', 'H200 (c)', 'H200 (d)'] as const
export const onA6000 = ['A6000, Azure', 'A6000, Mooncake'] as const
export const onH200 = ['H200, Azure', 'H200, Mooncake'] as const
/** Figs. 14 and 15. */
export const long: RecordingName = 'H200, Qwen2.5-32B, Azure'
export const ablated = '4090 (b)'
export const leftOut = ['offload', 'write-through', 'load–evict overlap'] as const
export const rates = [20, 25, 30] as const
export const intervalsMs = [500, 1_000, 1_500] as const
export const conservativenesses = [1, 20] as const

const tokenflows = ['TokenFlow', 'Brim'] as const

const on = (setups: readonly SetupName[], servers: readonly ServerName[], changes: Partial<Case> = {}): Case[] =>
  setups.flatMap((setup) => servers.map((server) => ({ setup, server, ...changes })))

/** Those that need the recorded requests, whose arrivals and lengths are the same with every seed. */
export const recordedCases: readonly Case[] = [
  ...on([...onA6000, ...onH200], all),
  // Andes tries every number of requests at once, which takes minutes where thousands wait.
  ...on([long], ['SGLang', 'SGLang (chunked)', 'TokenFlow', 'Brim']),
]

/** Every other run that a figure needs, once. */
export const cases: readonly Case[] = unique([
  ...on([...bursts, ...poissons], all),
  ...leftOut.flatMap((without) => on([ablated], tokenflows, { without })),
  ...rates.flatMap((tokensPerS) => on([ablated], ['SGLang', 'Andes', ...tokenflows], tokensPerS === 20 ? {} : { tokensPerS })),
  ...intervalsMs.flatMap((intervalMs) => on([ablated, '4090 (d)'], ['TokenFlow'], intervalMs === 500 ? {} : { intervalMs })),
  ...conservativenesses.flatMap((conservativeness) => on([ablated, '4090 (d)'], ['TokenFlow'], { conservativeness })),
  ...on(['Ascend 910B, burst'], all),
])

function unique(cases: readonly Case[]): Case[] {
  return [...new Map(cases.map((one) => [nameOf(one), one])).values()]
}
