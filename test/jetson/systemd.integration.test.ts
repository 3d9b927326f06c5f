import { chmodSync, copyFileSync, mkdirSync, realpathSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildTextBundle } from '../support/agent-world.ts'
import { bootSystemd, canBootSystemd, type SystemdRoot } from '../support/systemd-root.ts'
import { tempDir } from '../support/temp-dir.ts'

const repository = (path: string) => realpathSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)))
const installer = '/opt/brim/jetson/install.sh'

async function eventually<T>(read: () => Promise<T>, holds: (value: T) => boolean): Promise<T> {
  for (let tries = 0; ; tries++) {
    const value = await read()
    if (holds(value) || tries === 300) return value
    await delay(100)
  }
}

describe.skipIf(!canBootSystemd())('the services under systemd', () => {
  const temp = tempDir()
  let system: SystemdRoot
  beforeAll(async () => {
    const copies = join(temp.path, 'copies')
    mkdirSync(copies)
    const launcher = join(copies, 'brim')
    copyFileSync(repository('scripts/packaging/launcher.sh'), launcher)
    chmodSync(launcher, 0o755)
    // In the place of llama.cpp's server: says what it was started with, and stays.
    const llamaServer = join(copies, 'llama-server')
    const say = 'echo "args: $*, model: $LLAMA_ARG_ALIAS at $LLAMA_ARG_PORT, agent: $(ls /var/lib/brim/agent 2>&1)"'
    writeFileSync(llamaServer, `#!/bin/sh\ncat "$LLAMA_ARG_MODEL"\n${say}\nexec sleep infinity\n`, { mode: 0o755 })
    const model = join(copies, 'tiny.gguf')
    writeFileSync(model, 'weights of the tiny model\n', { mode: 0o644 })
    const release = join(copies, 'release.json')
    const platform = process.arch === 'arm64' ? 'linux-arm64' : 'linux-x64'
    writeFileSync(release, JSON.stringify({ version: '0.3.0', platform, node: process.versions.node, glibc: '2.28' }, null, 2))
    // As an archive lays them out.
    const parts = Object.fromEntries(
      ['dist', 'node_modules', 'package.json', 'jetson'].map((part) => [`/opt/brim/${part}`, repository(part)]),
    )
    system = await bootSystemd(temp.path, {
      ...parts,
      '/opt/brim/bin/brim.cjs': repository('bin/brim'),
      '/opt/brim/bin/brim': launcher,
      '/opt/brim/release.json': release,
      '/opt/brim/node/bin/node': process.execPath,
      '/usr/local/bin/llama-server': llamaServer,
      '/opt/models/tiny.gguf': model,
      '/opt/brim/bundles/demo': await buildTextBundle(temp.path),
    })
  })
  afterAll(async () => {
    await system?.close()
    temp[Symbol.dispose]()
  })

  const property = async (unit: string, name: string) =>
    (await system.run('systemctl', 'show', '--value', '--property', name, unit)).trim()

  it('are installed, enrolled and ready, restarted by the watchdog, drained, and removed', { timeout: 120_000 }, async () => {
    const { run } = system
    expect(await run(installer, '--bridge', '--bundle', '/opt/brim/bundles/demo')).toContain('start: brim-bridge')
    expect(await property('brim-bridge', 'StatusText')).toMatch(/^ready, 0 devices connected/)

    await run('brim', 'bridge', 'token', 'create', '--approve', '--out', '/root/token')
    const dropIn = '/run/systemd/system/brim-agent.service.d'
    await run('sh', '-c', `mkdir -p ${dropIn}; printf '[Service]\\nWatchdogSec=3\\nRestartSec=100ms\\n' >${dropIn}/test.conf`)
    const options = ['--id', 'jetson-01', '--bundle', '/opt/brim/bundles/demo', '--token-file', '/root/token']
    expect(await run(installer, ...options)).toContain('device jetson-01 enrolled at bridge bridge-1')
    expect(await property('brim-agent', 'User')).toBe('brim')
    expect(await property('brim-agent', 'StatusText')).toMatch(/^ready, .*, 0 answers in progress$/)
    expect(await run('brim', 'fleet', 'status')).toContain('jetson-01')
    expect(await run('brim', 'ask', 'hello', '--max-tokens', '2', '--json')).toContain('"tokens"')
    expect(await run(installer, ...options, '--no-start')).toContain('this device is enrolled already')

    // A process that stands still is replaced.
    const stopped = await property('brim-agent', 'MainPID')
    await run('kill', '-STOP', stopped)
    const next = await eventually(
      () => property('brim-agent', 'MainPID'),
      (pid) => pid !== stopped && pid !== '0',
    )
    expect(next).not.toBe(stopped)
    await eventually(
      () => property('brim-agent', 'ActiveState'),
      (state) => state === 'active',
    )

    await run('systemctl', 'stop', 'brim-agent', 'brim-bridge')
    expect(await property('brim-agent', 'Result')).toBe('success')
    const journal = await run('journalctl', '--unit', 'brim-agent', '--output', 'cat')
    for (const line of ['agent ready', 'agent draining', 'agent drained']) expect(journal).toContain(line)

    // Root acts in the state folder as its user, and elsewhere as root.
    await run('brim', 'bridge', 'backup', '--out', '/root/backup')
    expect(await run('ls', '/root/backup')).toContain('bridge.yaml')
    expect(await run('brim', 'bridge', 'restore', '/root/backup')).toContain('in /var/lib/brim/bridge')
    expect(await run('find', '/var/lib/brim/bridge', '!', '-user', 'brim')).toBe('')
    expect(await run('find', '/root/backup', '/root/token', '!', '-user', 'root')).toBe('')
    await run('systemctl', 'start', 'brim-bridge')
    expect(await run('brim', 'bridge', 'audit')).toContain('bridge.restore')
    await run('systemctl', 'stop', 'brim-bridge')

    await run(installer, '--uninstall', '--purge')
    expect(await run('sh', '-c', 'ls /etc/systemd/system /etc/brim /var/lib/brim')).not.toContain('agent')
  })

  it('include a server of a small model, as a user of its own', { timeout: 60_000 }, async () => {
    const { run } = system
    await run(installer, '--no-start', '--gpu', '--slm-server', '/opt/models/tiny.gguf')
    expect(await run('brim', 'agent', 'config', 'show')).toMatch(/slm-server +http:\/\/127\.0\.0\.1:8080/)
    await run('systemctl', 'start', 'brim-slm-server')
    const journal = await eventually(
      () => run('journalctl', '--unit', 'brim-slm-server', '--output', 'cat'),
      (lines) => lines.includes('args: '),
    )
    expect(journal).toContain('weights of the tiny model')
    expect(await property('brim-slm-server', 'DevicePolicy')).toBe('closed')
    expect(await run('ls', '/var/cache/private')).toContain('brim-slm-server')
    expect(journal).toMatch(/args: --host 127\.0\.0\.1, model: tiny at 8080, agent: .*Permission denied/)
    await run(installer, '--uninstall', '--purge')
    expect(await run('sh', '-c', 'ls /etc/systemd/system /etc/brim 2>/dev/null || true')).not.toMatch(/slm|agent/)
  })
})
