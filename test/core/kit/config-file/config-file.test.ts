import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { run } from '../../../../brim.ts'
import { defineConfiguredCommand } from '../../../../core/kit/config-file/configured-command.ts'
import { captureIo } from '../../../support/captured-io.ts'
import { runBrim } from '../../../support/run-brim.ts'

const folder = mkdtempSync(join(tmpdir(), 'brim-config-'))

function fileOf(text: string): string {
  const path = join(folder, 'some.yaml')
  writeFileSync(path, text)
  return path
}

/** Runs a command with the file. */
async function brim(words: string, text: string, ...more: string[]) {
  const path = fileOf(text)
  const result = await runBrim([...words.split(' '), '--config', path, ...more], { env: { HOME: folder } })
  return { ...result, err: result.err.replaceAll(path, 'FILE') }
}

/** What was set, by name. */
async function settingsOf(words: string, text: string, ...more: string[]) {
  const { out, err } = await brim(words, text, '--json', ...more)
  expect(err).toBe('')
  const { options, config } = JSON.parse(out) as {
    config: string
    options: { name: string; value: unknown; source: string }[]
  }
  const set = options.filter(({ source }) => source !== 'default')
  return Object.fromEntries(set.map(({ name, value, source }) => [name, [value, source.replace(config, 'FILE')]]))
}

describe('a configuration file', () => {
  it('sets options by their names, and the command line takes precedence', async () => {
    const text = '# a device\nid: jetson-01\nbridge: [mqtts://a, mqtts://b]\n\napi-port: 7171\ndraft-ahead: false\n'
    expect(await settingsOf('agent config show', text, '--api-port', '0')).toEqual({
      id: ['jetson-01', 'FILE:2'],
      bridge: [['mqtts://a', 'mqtts://b'], 'FILE:3'],
      'api-port': [0, '--api-port'],
      'draft-ahead': [false, 'FILE:6'],
    })
  })

  it('takes precedence over what the fleet has set, as the command line does', async () => {
    const fleet = new Map(['by-fleet', 'in-file', 'given'].map((name) => [name, { value: 'fleet', source: 'fleet' }]))
    let parsed: object = {}
    const option = z.string().meta({ description: 'an option', fallback: 'none' }).optional()
    const command = defineConfiguredCommand({
      examples: [],
      options: { byFleet: option, inFile: option, given: option },
      run({ parse }) {
        parsed = parse(fleet)
      },
    })
    await command.run({ config: fileOf('in-file: file\ngiven: file\n'), given: 'line' }, [], captureIo().io)
    expect(parsed).toEqual({ byFleet: 'fleet', inFile: 'file', given: 'line', json: false })
  })

  it('takes text as it is written, and a single value for a list', async () => {
    const text = 'id: 007\nslm: small\nlimit:\n  - apiAnswers=4\n  - apiConnections=8\n'
    expect(await settingsOf('agent config show', text)).toEqual({
      id: ['007', 'FILE:1'],
      slm: [['small'], 'FILE:2'],
      limit: [['apiAnswers=4', 'apiConnections=8'], 'FILE:3'],
    })
  })

  it('shows the default of every other option', async () => {
    const { out } = await brim('bridge config show', 'bundle: qwen')
    expect(out).toMatch(/^http-port +7070 +default$/m)
    expect(out).toMatch(/^upstream +none +default$/m)
  })

  it.each([
    ['id: a\napi-prot: 1', 'FILE:2: there is no option "api-prot"; did you mean "api-port"?'],
    ['id: a\nno-draft-ahead: true', 'FILE:2: "no-draft-ahead" is written "draft-ahead: false" here'],
    ['id: a\nid: b', 'FILE:2: Map keys must be unique'],
    ['id: a\nthreads: many', 'FILE:2: "threads" must be a number, not many'],
    ['id: a\ndraft-ahead: yes', 'FILE:2: "draft-ahead" must be true or false, not yes'],
    ['id: a\nmode:', 'FILE:2: "mode" has no value: it must be one of private, local'],
    ['id: a\ndraft:\n  ahead: false', 'FILE:2: there is no option "draft"'],
    ['id: a\nfleet:\n  name: b', 'FILE:2: "fleet" must be a string'],
    ['id: [a, b]', 'FILE:1: "id" must be a string, not a list'],
    ['id: &a b\nfleet: *a', 'FILE:2: "fleet" must be written out: anchors are not supported'],
    ['id: a\nbridge: [mqtts://a', 'FILE:2: Flow sequence'],
    ['- a', 'FILE:1: must be lines like "api-port: 7071"'],
    ['id: a\nthreads: 0', 'FILE:2: threads 0 must be at least 1'],
    ['id: a\nmode: secret', 'FILE:2: mode secret must be one of private, local'],
    ['id: a\nbridge: [mqtts://b, http://c]', 'FILE:2: bridge http://c must be a URL like mqtt://'],
    ['threads: 1', '"id" in FILE, or --id here, is missing'],
    ['id: a\nthreads: 0\napi-prot: 1\nlog-levle: info', 'FILE:4: there is no option "log-levle"; did you mean "log-level"?'],
  ])('%j is refused with its line', async (text, problem) => {
    const { code, out, err } = await brim('agent config check', text)
    expect([code, out]).toEqual([2, ''])
    expect(err).toContain(problem)
    expect(err).toContain('[CONFIG_INVALID]')
  })

  it('refuses what only the options together make wrong', async () => {
    const { err } = await brim('agent config check', 'id: a\nmode: cloud')
    expect(err).toContain('cloud needs a server: --server')
    const bridge = await brim('bridge config check', 'bundle: b\nmqtt-port: 1883', '--broker', 'mqtt://c')
    expect(bridge.err).toContain('FILE:2: mqtt-port and --broker exclude each other')
  })

  it.each([
    ['agent', 'id: a\nbundle: absent', 'absent'],
    ['agent', 'id: a\nslm: [absent]', 'absent'],
    ['agent', 'id: a\napi-key-file: absent', 'absent'],
    ['agent', 'id: a\npice-prompts: absent', 'absent'],
    ['bridge', 'bundle: absent', 'absent'],
    ['bridge', 'upstream: http://127.0.0.1:1\nupstream-model: m\nupstream-key-file: absent', 'absent'],
    ['bridge', 'upstream: http://127.0.0.1:1\nupstream-model: m\ntls-cert: absent\ntls-key: absent.key', 'absent'],
    ['bridge', 'upstream: http://127.0.0.1:1\nupstream-model: m\nbroker: mqtt://b\nbroker-admin-file: absent', 'absent'],
  ])('of an %s names files that it could not use: %j', async (program, text, named) => {
    const { code, err } = await brim(`${program} config check`, text)
    expect(code).not.toBe(0)
    expect(err).toContain(named)
    expect((await brim(`${program} config show`, text)).code).toBe(0)
  })

  it('is refused where it cannot be read', async () => {
    const { io, err } = captureIo()
    expect(await run(['agent', 'run', '--config', join(folder, 'absent')], io)).toBe(2)
    expect(err()).toContain('absent cannot be read')
  })

  it('may be empty, or of comments only', async () => {
    for (const text of ['', '# none\n']) expect((await brim('agent config check', text, '--id', 'a')).code).toBe(0)
  })
})
