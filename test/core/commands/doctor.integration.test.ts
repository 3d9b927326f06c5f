import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, it } from 'vitest'
import { checkBroker } from '../../../agent/commands/bridge-check.ts'
import { checkDevice } from '../../../agent/commands/device-check.ts'
import { checkClock, checkMemory, checkNode } from '../../../core/commands/doctor-checks.ts'
import { checkNative } from '../../../core/commands/doctor-natives.ts'
import { checkPorts } from '../../../core/commands/doctor-ports.ts'
import { reinstallHint } from '../../../core/commands/reinstall-hint.ts'
import { brim } from '../../support/brim.ts'
import { captureIo } from '../../support/captured-io.ts'
import { fixtureHost } from '../../support/device-fixture.ts'
import { tempDir } from '../../support/temp-dir.ts'

const doctor = (argv: readonly string[], env: Record<string, string>) => {
  const captured = captureIo({ env })
  return { ...captured, done: brim(argv, captured.io) }
}

describe('brim doctor', () => {
  it('reports the loaded library, its providers, memory and disk', async () => {
    using dir = tempDir()
    const { done, out } = doctor(['doctor', '--json'], { XDG_STATE_HOME: dir.path })
    await done
    const report = JSON.parse(out())
    expect(report.ok).toBe(true)
    const checks = Object.fromEntries(report.checks.map((check: { name: string }) => [check.name, check]))
    expect(checks.node.version).toBe(process.versions.node)
    expect(checks.onnxruntime).toMatchObject({
      status: 'ok',
      version: expect.stringMatching(/^1\.30\./),
      library: expect.stringContaining('libonnxruntime'),
    })
    expect(checks.providers.usable).toContain('CPUExecutionProvider')
    expect(checks.providers.failures).toEqual(
      checks.providers.unusable.map((name: string) => expect.stringMatching(`^${name}: .`)),
    )
    expect(checks.memory.freeBytes).toBeGreaterThan(0)
    expect(checks.memory.freeBytes).toBeLessThanOrEqual(checks.memory.totalBytes)
    expect(checks.disk).toMatchObject({ path: join(dir.path, 'brim'), freeBytes: expect.any(Number) })
  })

  it('says what auto would take, and why no other', async () => {
    using dir = tempDir()
    const providersWith = async (env: Record<string, string>) => {
      const { done, out } = doctor(['doctor', '--json'], { XDG_STATE_HOME: dir.path, ...env })
      await done
      return JSON.parse(out()).checks.find(({ name }: { name: string }) => name === 'providers')
    }
    expect(await providersWith({ VK_DRIVER_FILES: join(dir.path, 'none.json') })).toMatchObject({
      status: 'ok',
      ...{ auto: 'cpu', drivers: [], reason: 'no GPU driver was found (Vulkan)' },
      detail: expect.stringContaining('--provider auto takes cpu: no GPU driver was found (Vulkan)'),
    })
    // A manifest whose driver is not installed.
    const driver = join(dir.path, 'driver.json')
    writeFileSync(
      driver,
      JSON.stringify({ file_format_version: '1.0.0', ICD: { library_path: 'absent.so', api_version: '1.3.0' } }),
    )
    const broken = await providersWith({ VK_DRIVER_FILES: driver })
    expect(broken).toMatchObject({ auto: 'cpu', drivers: [driver], detail: expect.stringContaining(driver) })
    if (process.platform === 'linux' && process.arch === 'x64')
      expect(broken).toMatchObject({ status: 'warn', reason: expect.stringMatching(/^webgpu \(built into .*does not start: /) })
  })

  it('prints a line per check', async () => {
    using dir = tempDir()
    const { done, out } = doctor(['doctor'], { XDG_STATE_HOME: dir.path })
    await done
    const native = ['koffi', 'better-sqlite3', 'bufferutil', 'onnxruntime', 'providers']
    for (const name of ['node', ...native, 'memory', 'disk', 'clock', 'ports', 'device'])
      expect(out()).toMatch(new RegExp(`^(ok|warn) +${name} `, 'm'))
  })

  it('fails with a hint when ORT_LIB is not a library', async () => {
    const { done, out } = doctor(['doctor', '--json'], { ORT_LIB: '/nowhere/libonnxruntime.so' })
    await expect(done).rejects.toMatchObject({ code: 'RUNTIME_UNAVAILABLE', hint: expect.stringContaining('ORT_LIB') })
    const report = JSON.parse(out())
    expect(report.ok).toBe(false)
    expect(report.checks.find(({ name }: { name: string }) => name === 'onnxruntime')).toMatchObject({ status: 'fail' })
  })

  it('fails when state cannot be written, because a file is in the place of its folder', async () => {
    using dir = tempDir()
    const file = join(dir.path, 'file')
    writeFileSync(file, '')
    const { done } = doctor(['doctor'], { XDG_STATE_HOME: file })
    await expect(done).rejects.toMatchObject({ code: 'TARGET_UNWRITABLE' })
  })

  it.each([
    ['18.20.0', 'fail'],
    ['20.18.3', 'fail'],
    ['20.19.0', 'ok'],
    ['22.0.0', 'ok'],
  ])('reports Node %s as %s', (version, status) => {
    expect(checkNode(version).status).toBe(status)
  })

  it('reports a native package that does not load, and continues', async () => {
    using dir = tempDir()
    const broken = () => Promise.reject(new Error('libfoo.so: cannot open shared object file\nRequire stack: …'))
    expect(await checkNative('foo', broken)).toMatchObject({
      status: 'fail',
      detail: 'does not load: libfoo.so: cannot open shared object file',
      hint: 'run scripts/setup again',
    })
    expect(reinstallHint(pathToFileURL(`${dir.path}/`))).toBe('install Brim again (docs/packages.md)')
  })

  it('fails when the clock is not set', () => {
    expect(checkClock(Date.UTC(1970, 0, 1))).toMatchObject({ status: 'fail', detail: 'not set: 1970-01-01T00:00:00.000Z' })
  })

  it('warns about a port that another program uses', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    expect(await checkPorts({ mqtt: port })).toMatchObject({ status: 'warn', detail: `in use: ${port} of ${port} (mqtt)` })
    server.close()
    await once(server, 'close')
    expect(await checkPorts({ mqtt: port })).toMatchObject({ status: 'ok' })
  })

  it('fails when the bridge of an enrolled device cannot be reached', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const mqttUrl = `mqtt://127.0.0.1:${port}`
    expect(await checkBroker({ mqttUrl })).toMatchObject({ status: 'ok' })
    server.close()
    await once(server, 'close')
    expect(await checkBroker({ mqttUrl })).toMatchObject({ status: 'fail', detail: expect.stringContaining('ECONNREFUSED') })
  })

  it('warns when memory is short', () => {
    expect(checkMemory(2 ** 29, 2 ** 32)).toMatchObject({ status: 'warn', detail: '0.5 of 4.0 GiB free' })
  })

  it('reports the kind of device and the figures of its telemetry', async () => {
    using orin = fixtureHost('orin-nano-jp6')
    expect(await checkDevice(orin.host)).toEqual({
      name: 'device',
      status: 'ok',
      detail: expect.stringMatching(/^jetson, .*, Orin Nano, JetPack 6.2.1, .*, 15W; measures GPU load, temperatures, power$/),
      values: expect.objectContaining({ kind: 'jetson', module: 'Orin Nano', senses: ['GPU load', 'temperatures', 'power'] }),
    })
    using server = fixtureHost('server')
    expect(await checkDevice(server.host)).toMatchObject({ values: { kind: 'linux', senses: [] } })
  })
})
