import { join } from 'node:path'
import { expect, it } from 'vitest'
import { startAgent } from '../../../agent/agent.ts'
import { createClosers } from '../../../core/kit/base/closers.ts'
import type { JobDetails } from '../../../core/wire/protocol/http/jobs.ts'
import { ensureDemoBundle } from '../../../lab/cluster/demo-bundles.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { tempDir } from '../../support/temp-dir.ts'

const messages = [{ role: 'user', content: 'Can you book a table for two?' }]

// Uses the demonstration model: the text of a random model does not encode to the same tokens again.
it('hat.verify reports how much of a continuation the LLM would generate, in fewer rounds than tokens', {
  timeout: 60_000,
}, async () => {
  const closers = createClosers()
  const dir = tempDir()
  try {
    const bundle = await ensureDemoBundle()
    const bridge = await startTestBridge({ bundle, stateDir: join(dir.path, 'bridge') })
    closers.push(bridge.close)
    const device = { id: 'jetson-01', stateDir: join(dir.path, 'device'), bridges: [bridge.mqttUrl], apiPort: 0 }
    closers.push((await startAgent({ bundle, threads: 1, logLevel: 'silent', ...device })).close)

    const url = `${bridge.httpUrl}/v1/jobs`
    async function done<Result>(kind: string, input: object): Promise<Result> {
      const body = JSON.stringify({ kind, input })
      const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
      const { id } = (await response.json()) as { id: string }
      const show = async () => (await (await fetch(`${url}/${id}`)).json()) as JobDetails
      await expect.poll(async () => (await show()).state).toBe('SUCCEEDED')
      return (await show()).result as Result
    }
    interface Verified {
      continuationTokens: number
      acceptedTokens: number
      acceptLength: number
      isAccepted: boolean
      text: string
      rounds: number
    }
    const { text } = await done<{ text: string }>('hat.generate', { messages, maxTokens: 12 })
    const whole = await done<Verified>('hat.verify', { messages, continuation: text })
    expect(whole).toMatchObject({ isAccepted: true, acceptedTokens: whole.continuationTokens })
    expect(whole.text.startsWith(text)).toBe(true)
    expect(whole.continuationTokens).toBeGreaterThan(5)
    expect(whole.rounds).toBeLessThan(whole.continuationTokens)

    const words = text.split(' ')
    const correct = words.slice(0, 3).join(' ')
    const altered = await done<Verified>('hat.verify', { messages, continuation: `${correct} zebra zebra` })
    expect(altered).toMatchObject({ isAccepted: false, acceptLength: altered.acceptedTokens + 1 })
    expect(altered.acceptedTokens).toBeGreaterThan(0)
    expect(altered.acceptedTokens).toBeLessThan(altered.continuationTokens)
    // The corrected text is the beginning of the LLM's own answer.
    expect(text.startsWith(altered.text.trimEnd())).toBe(true)
  } finally {
    await closers.closeAll()
    dir[Symbol.dispose]()
  }
})
