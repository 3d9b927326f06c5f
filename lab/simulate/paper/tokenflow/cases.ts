import { type Case, nameOf, type ServerName, type SetupName, servers } from './setups.ts'

const all = Object.keys(servers) as ServerName[]
export const bursts = ['4090 (a)', '4090 (b)', 'H200 (a)', 'H200 (b)'] as const
export const poissons = ['4090 (c)', '4090 (d)', 'H200 (c)', 'H200 (d)'] as const
export const ablated = '4090 (b)'
export const leftOut = ['offload', 'write-through', 'load–evict overlap'] as const
export const rates = [20, 25, 30] as const
export const intervalsMs = [500, 1_000, 1_500] as const
export const conservativenesses = [1, 20] as const

const tokenflows = ['TokenFlow', 'Brim'] as const

const on = (setups: readonly SetupName[], servers: readonly ServerName[], changes: Partial<Case> = {}): Case[] =>
  setups.flatMap((setup) => servers.map((server) => ({ setup, server, ...changes })))

/** Every run that a figure needs, once. */
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
