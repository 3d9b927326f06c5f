import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { run } from '../../../brim.ts'
import { projectRoot } from '../../../core/kit/base/version.ts'
import { captureIo } from '../../support/captured-io.ts'
import { tempDir } from '../../support/temp-dir.ts'

interface Service {
  readonly build?: { readonly context: string; readonly dockerfile: string; readonly target: string }
  readonly image?: string
  readonly command?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly ports?: readonly string[]
  readonly tmpfs?: readonly string[]
  readonly volumes: readonly string[]
  readonly stop_grace_period?: string
  readonly depends_on?: Readonly<Record<string, unknown>>
}

const folder = fileURLToPath(new URL('docs/examples/several-bridges/', projectRoot))
const text = readFileSync(join(folder, 'compose.yaml'), 'utf8')
const compose = parse(text, { merge: true }) as { services: Record<string, Service>; volumes: Record<string, unknown> }
const head = text.split('\nname:')[0]!
const bridges = Object.entries(compose.services).filter(([, { command }]) => command !== undefined)
const config = parse(readFileSync(join(folder, 'bridge.yaml'), 'utf8')) as Record<string, string | number>

describe('the compose file of several bridges', () => {
  it('has two bridges, with a configuration and arguments that a bridge takes', async () => {
    using dir = tempDir()
    const file = join(dir.path, 'bridge.yaml')
    writeFileSync(file, readFileSync(join(folder, 'bridge.yaml')), { mode: 0o600 })
    expect(bridges).toHaveLength(2)
    for (const [name, { command = [] }] of bridges) {
      expect(command.slice(0, 3)).toEqual(['bridge', 'run', '--config=/etc/brim/bridge.yaml'])
      expect(command.slice(3)).toEqual([`--node=${name}`, `--node-url=https://${name}:${config['http-port']}`])
      const { io, err } = captureIo()
      const code = await run(['bridge', 'config', 'show', '--config', file, ...command.slice(3)], io)
      expect(err()).toBe('')
      expect(code).toBe(0)
    }
  })

  it('mounts what is there or what its first lines make, and reaches the database and the broker that it starts', () => {
    for (const [name, { volumes, image, environment = {} }] of Object.entries(compose.services)) {
      if (image !== undefined) expect(image).toMatch(/^[\w/-]+:\d+\.\d+(\.\d+)?$/)
      for (const source of volumes.map((mount) => mount.split(':')[0]!)) {
        if (!source.startsWith('.')) expect(Object.keys(compose.volumes)).toContain(source)
        else if (source === './keys') expect(head).toContain('mkdir -p keys')
        else expect(existsSync(join(folder, source)), `${name}: ${source}`).toBe(true)
      }
      for (const value of [...Object.values(environment), ...Object.values(config)].map(String))
        if (value.startsWith('/keys/')) expect(head).toContain(value.slice(1))
    }
    const { hostname, username, pathname } = new URL(String(config.database))
    expect(compose.services[hostname]!.environment).toMatchObject({ POSTGRES_USER: username, POSTGRES_DB: pathname.slice(1) })
    expect(compose.services.mosquitto!.ports).toContain(`${new URL(String(config.broker)).port}:8883`)
    const broker = readFileSync(join(folder, 'mosquitto.conf'), 'utf8')
    expect(broker).toMatch(/^listener 8883$/m)
    for (const [, file] of broker.matchAll(/^(?:certfile|keyfile) \/(.*)$/gm)) expect(head).toContain(file)
  })

  it('gives each bridge a state folder of its own, and time to hand over', () => {
    for (const [, { tmpfs = [], stop_grace_period = '', depends_on = {} }] of bridges) {
      expect(tmpfs.some((mount) => mount.startsWith(`${config['state-dir']}:`))).toBe(true)
      expect(Number.parseInt(stop_grace_period, 10)).toBeGreaterThan(Number(config['drain-seconds']))
      expect(Object.keys(depends_on)).toEqual(['db', 'mosquitto'])
    }
  })
})
