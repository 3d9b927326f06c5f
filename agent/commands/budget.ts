import { z } from 'zod'
import type { Io } from '../../core/kit/base/io.ts'
import { visibleLine } from '../../core/kit/base/visible-text.ts'
import { defineCommand, type OptionsOf } from '../../core/kit/cli/command.ts'
import { getJson } from '../../core/wire/openai/client.ts'
import { Spending } from '../../core/wire/protocol/spending.ts'
import { apiOption, readAgentApiKey } from './agent-api.ts'
import { dollarText, plainNumber } from './dollar-text.ts'

const options = {
  api: apiOption,
  apiKeyFile: z
    .string()
    .optional()
    .meta({ alias: 'key-file', description: "file with a key of the agent's API; -: standard input", fallback: 'none' }),
}

/** `brim agent budget` */
export const command = defineCommand({
  examples: [
    ['brim agent budget', 'window, spending, what is left, and what energy is worth now'],
    ['brim agent budget --json | jq .server.dollars', 'one figure, for programs'],
  ],
  options,
  run: showBudget,
})

async function showBudget({ api, apiKeyFile, json }: OptionsOf<typeof options>, io: Io): Promise<void> {
  const key = apiKeyFile === undefined ? undefined : await readAgentApiKey(apiKeyFile, io)
  const raw = await getJson({ server: 'agent', url: api, key }, '/budget', io.signal)
  if (json) return io.out(JSON.stringify(raw))
  io.out(linesOf(Spending.parse(raw)).map(visibleLine).join('\n'))
}

function linesOf({ windowS, whenExhausted, server, slm, hat, auto }: Spending): string[] {
  const rows: readonly (readonly [string, ...string[]])[] = [
    ['window', `${plainNumber((windowS ?? 0) / 3_600)} h; beyond the budget: ${whenTexts[whenExhausted ?? ''] ?? whenExhausted}`],
    ['server', spentText(server, dollarText, server.dollars, server.maxDollars, server.reservedDollars), priceText(server)],
    ['small model', spentText(slm, joules, slm.joules, slm.maxJoules, slm.reservedJoules), ...energyTexts(slm)],
    ['HAT', workText(hat)],
    ['mode auto', autoText(auto)],
  ]
  const width = Math.max(...rows.map(([title]) => title.length))
  return rows.flatMap(([title, ...texts]) => texts.map((text, at) => `${(at === 0 ? title : '').padEnd(width)}  ${text}`))
}

const whenTexts: Readonly<Record<string, string>> = {
  other: 'the other side answers',
  wait: 'requests wait',
  refuse: 'requests are refused',
}

const joules = (value: number) => `${plainNumber(value)} J`
const percent = (part: number | null) => (part === null ? 'none' : `${Math.round(100 * part)} %`)

interface Work {
  readonly promptTokens: number | null
  readonly tokens: number | null
}
const workText = ({ promptTokens, tokens }: Work) =>
  `${(promptTokens ?? 0).toLocaleString('en-US')} prompt tokens, ${(tokens ?? 0).toLocaleString('en-US')} tokens of answers`

/** @param spent null: unknown @param max null: no limit */
function spentText(
  work: Work & { readonly waitS: number | null },
  text: (value: number) => string,
  spent: number | null,
  max: number | null,
  reserved: number | null,
): string {
  const left = text(Math.max(0, (max ?? 0) - (spent ?? 0) - (reserved ?? 0)))
  const limit = max === null ? ', no limit' : ` of ${text(max)}, ${left} left`
  const held = reserved ? `, ${text(reserved)} reserved by answers in progress` : ''
  const wait = work.waitS ? `, exhausted for ${plainNumber(work.waitS / 60)} min` : ''
  return `${spent === null ? 'cost unknown' : `${text(spent)}${limit}`}${held}${wait}; ${workText(work)}`
}

function priceText({ promptDollarsPerToken: prompt, outputDollarsPerToken: output }: Spending['server']): string {
  if (prompt === null || output === null) return 'price unknown (--server-price)'
  return `${dollarText(1e6 * prompt)} per million prompt tokens, ${dollarText(1e6 * output)} per million of answers`
}

/** What a token takes, how that is known, and what energy is worth. */
function energyTexts({ energySource, prefillJPerToken, decodeJPerToken, dollarsPerJoule, energyReason }: Spending['slm']) {
  const worth = `a kWh is worth ${dollarText(joulesPerKilowattHour * (dollarsPerJoule ?? 0))} (${reasons[energyReason ?? ''] ?? energyReason})`
  if (prefillJPerToken === null || decodeJPerToken === null) return [worth]
  const source = sources[energySource ?? ''] ?? energySource
  return [`${joules(prefillJPerToken)} per prompt token, ${joules(decodeJPerToken)} per token of answers (${source})`, worth]
}

const joulesPerKilowattHour = 3.6e6
const sources: Readonly<Record<string, string>> = { measured: 'measured', flops: 'estimated from the size of the model' }
const reasons: Readonly<Record<string, string>> = {
  setting: '--energy-price',
  mains: 'on mains power',
  battery: 'by the battery',
  unknown: 'the battery is not readable',
}

function autoText({ promptTokens, constrained, maxShare, deviceShare, serverShare }: Spending['auto']): string {
  const limited = constrained === 'server' ? 'the server' : 'the small model'
  const share = `${limited} may process ${percent(maxShare)} of prompt tokens`
  if (!promptTokens) return `${share}; no request yet`
  return `${share}; of ${promptTokens.toLocaleString('en-US')}, the small model has processed ${percent(deviceShare)}, the server ${percent(serverShare)}`
}
