import { z } from 'zod'
import { systemClock } from '../../core/kit/base/clock.ts'
import type { Io } from '../../core/kit/base/io.ts'
import { Duration, off } from '../../core/kit/base/setting-kinds.ts'
import { visibleLine } from '../../core/kit/base/visible-text.ts'
import { columns } from '../../core/kit/cli/columns.ts'
import { defineCommand, type OptionsOf } from '../../core/kit/cli/command.ts'
import type { BrimServer } from '../../core/wire/openai/ask-server.ts'
import { getJson } from '../../core/wire/openai/client.ts'
import { disclosureCells } from '../../core/wire/protocol/disclosure-text.ts'
import { type Disclosure, DisclosureList } from '../../core/wire/protocol/disclosures.ts'
import { apiOption, readAgentApiKey } from './agent-api.ts'

const options = {
  api: apiOption,
  apiKeyFile: z
    .string()
    .optional()
    .meta({ alias: 'key-file', description: "file with a key of the agent's API; -: standard input", fallback: 'none' }),
  since: Duration.optional().meta({ description: 'only entries of the last 30m, 24h, 7d', fallback: 'all that are kept' }),
  lines: z.int().min(1).max(1_000).default(100).describe('max entries, the newest'),
  follow: off.describe('then print each entry once it is complete, until Ctrl-C'),
}

/** `brim agent disclosures` */
export const command = defineCommand({
  examples: [
    ['brim agent disclosures', 'what has left this device for each answer, to where, and why'],
    ['brim agent disclosures --since 24h --json | jq \'.disclosures[] | select(.content == "text")\'', 'where text went'],
    ['brim agent disclosures --follow', 'as it happens'],
  ],
  notes: 'The ledger has sizes, modes, reasons and destinations; never a prompt or an answer.',
  options,
  run: show,
})

const pollMs = 1_000

async function show({ api: url, apiKeyFile, since, lines, follow, json }: OptionsOf<typeof options>, io: Io): Promise<void> {
  const key = apiKeyFile === undefined ? undefined : await readAgentApiKey(apiKeyFile, io)
  const api: BrimServer = { server: 'agent', url, key }
  const query = new URLSearchParams({ limit: String(lines) })
  if (since !== undefined) query.set('since', new Date(Date.now() - since * 1_000).toISOString())
  const raw = await getJson(api, `/v1/disclosures?${query}`, io.signal)
  const { recording, disclosures } = DisclosureList.parse(raw)
  if (recording.unstored > 0 || recording.failure !== null)
    io.err(visibleLine(`${recording.unstored} entries are not on disk: ${recording.failure ?? 'it was full'}`))
  if (follow) return followFrom(api, disclosures, json, io)
  if (json) return io.out(JSON.stringify(raw))
  if (disclosures.length === 0) return io.err('no answers in this time')
  io.out(columns([['TIME', 'ANSWER', 'MODE', 'WHY', 'LEFT THE DEVICE', 'TO'], ...disclosures.map(disclosureCells)]))
}

/** Prints entries that have ended, each once. */
async function followFrom(api: BrimServer, first: readonly Disclosure[], json: boolean, io: Io): Promise<void> {
  const printed = new Set<number>()
  for (let entries = first; ; ) {
    for (const entry of entries.filter(({ id, state }) => state !== 'open' && !printed.has(id))) {
      printed.add(entry.id)
      io.out(json ? JSON.stringify(entry) : visibleLine(disclosureCells(entry).join('  ')))
    }
    // Those before the first that is open are not read again.
    const after = (entries.find(({ state }) => state === 'open')?.id ?? Math.max(0, ...printed) + 1) - 1
    await systemClock.sleep(pollMs, io.signal)
    entries = DisclosureList.parse(await getJson(api, `/v1/disclosures?after=${after}&limit=1000`, io.signal)).disclosures
  }
}
