import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { jobOperations, type StoredJobEvent } from '../../../core/wire/protocol/http/jobs.ts'
import { type BridgeClient, bridgeClient } from '../bridge-client.ts'
import { eventLine, idOption } from './job.ts'
import { resultText } from './result.ts'

export const command = defineCommand({
  examples: [['brim job show 3f9a1c07-42', 'its input, result and history']],
  options: { id: idOption, ...bridgeOptions },
  async run({ id, json, ...options }, io) {
    const client = await bridgeClient(options, io)
    const {
      raw,
      value: { kind },
    } = await client.call(jobOperations.show, { params: { id } })
    const job = raw as Readonly<Record<string, unknown>>
    const events = await historyOf(client, id)
    if (json) return io.out(JSON.stringify({ ...job, events }))
    const { result, input, ...rest } = job
    for (const [name, value] of Object.entries({ ...rest, input })) {
      if (value === null || value === undefined) continue
      io.out(visibleLine(`${name.padEnd(16)}${typeof value === 'object' ? JSON.stringify(value) : String(value)}`))
    }
    for (const event of events) if (event.type !== 'text') io.out(eventLine(event))
    if (result !== null && result !== undefined) io.out(`\nresult\n${resultText(kind, result)}`)
  },
})

async function historyOf(client: BridgeClient, id: string): Promise<StoredJobEvent[]> {
  const all: StoredJobEvent[] = []
  for (;;) {
    const { events } = (await client.call(jobOperations.events, { params: { id }, query: { after: all.length } })).value
    if (events.length === 0) return all
    all.push(...events)
  }
}
