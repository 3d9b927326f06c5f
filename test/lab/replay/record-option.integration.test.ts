import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { machines } from '../../../lab/replay/machines.ts'
import { replay } from '../../../lab/replay/replay.ts'
import { startAgentWorld } from '../../support/agent-world.ts'
import { postJson } from '../../support/post-json.ts'
import { tempDir } from '../../support/temp-dir.ts'

it('an agent and a bridge record what they decide, without text, and the same code decides the same', async () => {
  using folder = tempDir()
  const files = { bridge: join(folder.path, 'bridge.jsonl'), agent: join(folder.path, 'agent.jsonl') }
  {
    await using world = await startAgentWorld({ bridge: { record: files.bridge } })
    const agent = await world.startAgent({ id: 'recorded', record: files.agent })
    const response = await postJson(`${agent.apiUrl}/v1/completions`, {
      model: 'brim',
      prompt: 'Platypus',
      max_tokens: 8,
      temperature: 0,
    })
    expect(response.status).toBe(200)
  }
  for (const file of Object.values(files)) {
    const text = readFileSync(file, 'utf8')
    expect(text).not.toContain('Platypus')
    const { machines: count, inputs, differences } = replay(text.split('\n'), machines)
    expect(count).toBeGreaterThan(0)
    expect(inputs).toBeGreaterThan(0)
    expect(differences).toEqual([])
  }
})
