import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { startTestBridge } from '../../support/bridge.ts'
import { randomStates } from '../../support/random-states.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'
import { connectDevice } from '../../support/test-device.ts'
import { tinyBundle } from '../../support/tiny-bundle.ts'

const bundle = shared(tinyBundle)
const dir = shared(tempDir)

describe('/metrics', () => {
  it('shows what the bridge does, in the format that Prometheus reads', async () => {
    await using bridge = await startTestBridge({ bundle: bundle.path, stateDir: join(dir.path, 'state') })
    await using device = await connectDevice(bridge.dataUrl, 'jetson-01', bundle.manifest.dims.hidden)
    const session = await device.open(bridge.modelId)
    await device.rows(session, { base: 0, states: randomStates(5, bundle.manifest.dims.hidden, 1) })
    const response = await fetch(`${bridge.httpUrl}/metrics`)
    expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    const text = await response.text()
    const lines = text.split('\n')
    expect(lines).toContain('brim_hat_sessions 1')
    expect(lines).toContain('brim_step_rows_sum 5')
    expect(lines).toContain('brim_step_streams_count 1')
    expect(lines).toContain('brim_devices{state="ready"} 0')
    expect(lines).toContain('brim_jobs{state="queued"} 0')
    expect(lines).toContain(`brim_computing_info{model_id="${bridge.modelId}",provider="cpu"} 1`)
    expect(text).toMatch(/^brim_kv_cache_bytes\{holder="streams"\} [1-9]/m)
    expect(text).toMatch(/^brim_mqtt_clients 1$/m)
    expect(text).toMatch(/^process_resident_memory_bytes \d/m)
  })

  it('passes promtool, where it is installed', async ({ skip }) => {
    const promtool = hasPromtool()
    if (!promtool) skip('promtool is not installed (Debian: apt-get install prometheus)')
    await using bridge = await startTestBridge({ bundle: bundle.path, stateDir: join(dir.path, 'promtool') })
    const text = await (await fetch(`${bridge.httpUrl}/metrics`)).text()
    execFileSync('promtool', ['check', 'metrics'], { input: text })
  })
})

function hasPromtool(): boolean {
  try {
    execFileSync('promtool', ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
