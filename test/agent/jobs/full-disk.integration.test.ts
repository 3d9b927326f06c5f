import { execFileSync } from 'node:child_process'
import { appendFileSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { deviceTopic } from '../../../core/wire/protocol/topics.ts'
import { startAgentWorld } from '../../support/agent-world.ts'
import { watchTopic } from '../../support/broker.ts'
import { shared } from '../../support/shared.ts'

const world = shared(startAgentWorld)
let disk: string
let isMounted = false
beforeAll(async () => {
  disk = join(world.dir, 'disk')
  mkdirSync(disk)
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'brim-test', disk], { stdio: 'ignore' })
    isMounted = true
  } catch {
    // Not as an ordinary user.
  }
})

const fromBridge = async (path: string, init?: RequestInit) => (await fetch(`${world.bridge.httpUrl}${path}`, init)).json()
async function submit(prompt: string, target: object = { device: 'full' }): Promise<string> {
  const body = JSON.stringify({ kind: 'hat.generate', ...target, input: { prompt, maxTokens: 2 } })
  const reply = await fromBridge('/v1/jobs', { method: 'POST', headers: { 'content-type': 'application/json' }, body })
  return (reply as { id: string }).id
}
const jobOf = (id: string) => fromBridge(`/v1/jobs/${id}`)
const deviceOf = async () => {
  const { devices } = (await fromBridge('/v1/fleet')) as { devices: { id: string; problems: object[] }[] }
  return devices.find(({ id }) => id === 'full')
}
/** Leaves no free space. */
function fill(file: string): void {
  for (let bytes = 2 ** 20; bytes >= 2 ** 12; bytes /= 2)
    for (;;) {
      try {
        appendFileSync(file, Buffer.alloc(bytes))
      } catch {
        break
      }
    }
}

describe('a device whose disk is full', () => {
  it('stays connected, acknowledges no job that it cannot store, and runs it once there is space', async ({ skip }) => {
    if (!isMounted) skip('a file system of a few MB can be mounted by root only')
    await using states = await watchTopic(world.bridge.mqttUrl, deviceTopic('default', 'full', 'state'))
    const state = () => JSON.parse(states.messages.at(-1)?.text ?? '{}') as { jobs?: string[]; connection?: number }
    const filler = join(disk, 'filler')
    const agent = await world.startAgent({ id: 'full', stateDir: join(disk, 'state'), telemetryS: 1 })
    try {
      await expect.poll(deviceOf).toMatchObject({ state: 'ready', telemetry: {} })
      fill(filler)

      const failing = await submit('x'.repeat(100_000))
      await expect
        .poll(() => jobOf(failing))
        .toMatchObject({ state: 'QUEUED', failures: { unavailable: 1 }, error: { code: 'STORE_FAILED' } })
      const { events } = (await fromBridge(`/v1/jobs/${failing}/events`)) as { events: { type: string }[] }
      expect(events.map(({ type }) => type)).not.toContain('accepted')
      await expect.poll(() => state().jobs).toEqual([])
      await expect.poll(deviceOf).toMatchObject({ state: 'ready', problems: [{ kind: 'disk-full', detail: '' }] })
      // Jobs for any device go to another one.
      const another = await submit('Can you', {})
      await expect.poll(() => jobOf(another)).toMatchObject({ state: 'SUCCEEDED', lastDevice: 'jetson-01' })

      rmSync(filler)
      await expect.poll(() => state().jobs).toContain('hat.generate')
      const later = await submit('Can you')
      await expect.poll(() => jobOf(later)).toMatchObject({ state: 'SUCCEEDED' })
      // It is longer than the context, which only the device finds.
      await expect.poll(() => jobOf(failing)).toMatchObject({ error: { code: 'CONTEXT_OVERFLOW' } })
      expect(state().connection).toBe(1)
    } finally {
      await agent.close()
      execFileSync('umount', [disk])
    }
  })
})
