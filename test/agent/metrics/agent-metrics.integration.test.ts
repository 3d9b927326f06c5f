import { execFileSync, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { DeviceDetails } from '../../../core/wire/protocol/http/devices.ts'
import { startAgentWorld } from '../../support/agent-world.ts'
import { fixtureHost } from '../../support/device-fixture.ts'
import { shared } from '../../support/shared.ts'

const world = shared(startAgentWorld)
const orin = shared(() => fixtureHost('agx-orin-jp6'))

async function scrape(apiUrl: string) {
  const response = await fetch(`${apiUrl}/metrics`)
  const text = await response.text()
  /** By the beginning of its line; NaN: there is none. */
  const value = (sample: string) => {
    const line = text.split('\n').find((each) => each.startsWith(`${sample} `))
    return Number(line?.split(' ').at(-1) ?? Number.NaN)
  }
  return { type: response.headers.get('content-type'), text, value }
}

async function ask(apiUrl: string) {
  const body = JSON.stringify({ messages: [{ role: 'user', content: 'What is a lamp?' }], max_tokens: 12, ignore_eos: true })
  const response = await fetch(`${apiUrl}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  })
  return (await response.json()) as { brim: { rounds: number; accepted: number; bytesUp: number; bytesDown: number } }
}

describe("an agent's /metrics", () => {
  it('has the figures of its telemetry, from the same sample', async () => {
    const { apiUrl } = await world.startAgent({ id: 'orin', telemetryS: 60 }, undefined, orin.host)
    const shown = async () => {
      const response = await fetch(`${world.bridge.httpUrl}/v1/devices/orin`)
      return ((await response.json()) as DeviceDetails).telemetry
    }
    await expect.poll(async () => (await shown())?.temperatures?.hottestC ?? 0).toBeGreaterThan(0)
    const { temperatures, power, memory, disk, load } = (await shown())!
    const { type, text, value } = await scrape(apiUrl)
    expect(type).toBe('text/plain; version=0.0.4; charset=utf-8')
    for (const [zone, celsius] of Object.entries(temperatures!.zonesC))
      expect(value(`brim_agent_temperature_celsius{zone="${zone}"}`)).toBeCloseTo(celsius, 0)
    for (const [rail, watts] of Object.entries(power!.railsW))
      expect(value(`brim_agent_rail_watts{rail="${rail}"}`)).toBeCloseTo(watts, 1)
    expect(Object.keys(power!.railsW).length).toBeGreaterThan(1)
    // Telemetry has fewer digits.
    expect(value('brim_agent_memory_bytes{kind="total"}') / memory!.totalBytes!).toBeCloseTo(1, 2)
    expect(value('brim_agent_disk_bytes{kind="total"}') / disk!.totalBytes!).toBeCloseTo(1, 2)
    expect(value('brim_agent_load_ratio{unit="gpu"}')).toBeCloseTo(load!.gpuPercent! / 100, 1)
    expect(text).toMatch(/^brim_agent_info\{device="orin",version="[^"]+",provider="cpu"\} 1$/m)
    expect(text).toMatch(/^process_resident_memory_bytes \d/m)
    // It has no battery: no sample, which zero would be.
    expect(text).not.toMatch(/^brim_agent_battery_ratio/m)
  })

  it('counts its answers, and what drafts and bytes they took', async () => {
    const { apiUrl } = world.agent
    const before = await scrape(apiUrl)
    const { brim } = await ask(apiUrl)
    const { value } = await scrape(apiUrl)
    const model = 'model_name="tiny-llama"'
    expect(before.value(`brim_agent_requests_total{${model},finished_reason="length"}`)).toBeNaN()
    expect(value(`brim_agent_requests_total{${model},finished_reason="length"}`)).toBe(1)
    expect(value(`brim_agent_time_to_first_token_seconds_count{${model}}`)).toBe(1)
    expect(value(`brim_agent_inter_token_latency_seconds_count{${model}}`)).toBe(11)
    expect(value(`brim_agent_spec_decode_num_drafts_total{${model}}`)).toBe(brim.rounds)
    expect(value(`brim_agent_spec_decode_num_accepted_tokens_total{${model}}`)).toBe(brim.accepted)
    expect(value(`brim_agent_accept_length_count{${model}}`)).toBe(1)
    expect(value(`brim_agent_hat_sent_bytes_total{${model}}`)).toBe(brim.bytesUp)
    expect(value(`brim_agent_hat_received_bytes_total{${model}}`)).toBe(brim.bytesDown)
    expect(value('brim_agent_link_connected')).toBe(1)
  })

  it('needs a key where the API does', async () => {
    const file = join(world.dir, 'keys')
    writeFileSync(file, 'of-prometheus-and-others\n', { mode: 0o600 })
    const { apiUrl } = await world.startAgent({ id: 'guarded', apiKeyFile: file })
    expect((await fetch(`${apiUrl}/metrics`)).status).toBe(401)
    const authorization = 'Bearer of-prometheus-and-others'
    expect((await fetch(`${apiUrl}/metrics`, { headers: { authorization } })).status).toBe(200)
  })

  it('passes promtool, where it is installed', async ({ skip }) => {
    if (spawnSync('promtool', ['--version']).error) skip('promtool is not installed (Debian: apt-get install prometheus)')
    const { text } = await scrape(world.agent.apiUrl)
    execFileSync('promtool', ['check', 'metrics'], { input: text })
  })
})
