import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { agentDatabases } from '../../../../agent/databases.ts'
import { bridgeDatabases } from '../../../../cloud-bridge/databases.ts'
import { openIdentityStore } from '../../../../cloud-bridge/identity/store.ts'
import { openDatabase } from '../../../../core/kit/store/open-database.ts'
import { brim } from '../../../support/brim.ts'
import { captureIo } from '../../../support/captured-io.ts'
import { fresh } from '../../../support/shared.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const prompt = 'what may the neighbours never hear'
const answer = 'that the cellar is full of gold'
const password = 'hunter2-and-more'
const privateKey = '-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1secret1secret1\n-----END PRIVATE KEY-----'

const dir = fresh(tempDir)
const at = (...names: string[]) => join(dir.path, ...names)

/** A log as an agent or bridge writes it, with what must not be in it. */
function plantLog(key: string): string {
  const lines = [
    { level: 'info', time: '2026-05-01T12:00:00Z', component: 'api', msg: 'request answered', promptTokens: 7, body: prompt },
    {
      level: 'warn',
      time: '2026-05-01T12:00:01Z',
      msg: `refused Bearer ${key}`,
      err: { type: 'BrimError', code: 'UPSTREAM_FAILED', message: prompt, stack: `Error: ${prompt}\n    at ask (ask.ts:1:2)` },
      nested: { answer },
    },
  ].map((line) => JSON.stringify(line))
  const path = at('log.json')
  writeFileSync(path, [...lines, `${prompt} ${password}`, ''].join('\n'))
  return path
}

/** Plants prompts, answers and keys in every database that has a column for them. */
function plantRows(stateDir: string, databases: typeof agentDatabases): void {
  mkdirSync(join(stateDir, 'identity'), { recursive: true })
  writeFileSync(join(stateDir, 'identity', 'device-key.pem'), privateKey)
  for (const { file, migrations } of databases) {
    const store = openDatabase(join(stateDir, file), migrations, 'NORMAL')
    store.exec('CREATE TABLE planted (text TEXT)')
    store.prepare('INSERT INTO planted VALUES (?)').run(`${prompt} ${answer} ${password} ${privateKey}`)
    store.close()
  }
}

/** The archive's files, by tar's own reading. */
function unpack(archive: string): Map<string, string> {
  mkdirSync(at('unpacked'))
  execFileSync('tar', ['-xzf', archive, '-C', at('unpacked')])
  const folder = at('unpacked', 'brim-support')
  return new Map(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'utf8')]))
}

describe.each(['agent', 'bridge'] as const)('brim %s support-bundle', (name) => {
  it('holds what helps, and no secrets, prompts and answers', async () => {
    const stateDir = at('state')
    const databases = name === 'agent' ? agentDatabases : bridgeDatabases
    const identities = name === 'bridge' ? openIdentityStore(stateDir) : undefined
    const { key } = identities?.createKey('operator:test', 'sam', 'admin') ?? { key: 'brim-key-1.abcdefghijklmnop' }
    identities?.close()
    plantRows(stateDir, databases)
    const [log, out, config] = [plantLog(key), at('out.tar.gz'), at('config.yaml')]
    const url = `https://user:${password}@example.org/x?token=${password}`
    const settings = name === 'agent' ? `id: device-1\nbundle-source: [${url}]\n` : `fleet: lab\nupstream: ${url}\n`
    writeFileSync(config, `${settings}log-level: debug\n`)
    const { io, out: printed } = captureIo()
    const port = name === 'agent' ? ['--api-port', '9'] : ['--http-port', '9']
    const options = ['--config', config, '--state-dir', stateDir, '--log-file', log, '--out', out, ...port]
    await brim([name, 'support-bundle', ...options], io)
    expect(printed()).toContain(out)
    expect(statSync(out).mode & 0o077).toBe(0)
    const files = unpack(out)
    const all = [...files.values()].join('\n')
    for (const secret of [prompt, answer, password, 'secret1', key]) expect(all).not.toContain(secret)

    const json = (file: string) => JSON.parse(files.get(file) ?? 'null')
    expect(json('versions.json')).toMatchObject({ brim: expect.any(String), node: process.version })
    expect(json('config.json').options).toContainEqual({ name: 'log-level', value: 'debug', source: `${config}:3` })
    expect(json('doctor.json').map((check: { name: string }) => check.name)).toEqual(
      expect.arrayContaining(['node', 'clock', 'disk']),
    )
    const examined = json('databases.json').databases as { file: string; version: number; supported: number; rows: object }[]
    expect(examined.map(({ file }) => file)).toEqual(databases.map(({ file }) => file))
    for (const { version, supported, rows } of examined) {
      expect(version).toBe(supported)
      expect(rows).toMatchObject({ planted: 1 })
    }
    expect(files.get('health.txt')).toContain('not read from')
    const logged = files
      .get('log.jsonl')!
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(logged).toEqual([
      { lines: 2, notShown: 1 },
      expect.objectContaining({ msg: 'request answered', component: 'api', promptTokens: 7 }),
      expect.objectContaining({ err: { type: 'BrimError', code: 'UPSTREAM_FAILED', at: ['at ask (ask.ts:1:2)'] } }),
    ])
  })
})
