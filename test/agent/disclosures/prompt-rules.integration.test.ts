import { writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { join } from 'node:path'
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Agent } from '../../../agent/agent.ts'
import { readAgentConfig } from '../../../agent/config.ts'
import { PrivacyConfig } from '../../../agent/disclosures/config.ts'
import { PromptRules } from '../../../agent/disclosures/prompt-rules.ts'
import type { AnswerRequest } from '../../../core/answer/endpoint/endpoint.ts'
import { Prompt } from '../../../core/answer/endpoint/prompt.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import type { ChatMessage } from '../../../core/model/text/chat-message.ts'
import type { DisclosureList } from '../../../core/wire/protocol/disclosures.ts'
import { onLoopback } from '../../../lab/cluster/loopback-server.ts'
import { buildSlmBundle, startAgentWorld } from '../../support/agent-world.ts'
import { ask, linked } from '../../support/asking-agent.ts'
import { brim } from '../../support/brim.ts'
import { captureIo } from '../../support/captured-io.ts'
import { postJson } from '../../support/post-json.ts'
import { recordingLogger } from '../../support/recording-logger.ts'
import { shared } from '../../support/shared.ts'
import { silentLogger } from '../../support/silent-logger.ts'

const never = new AbortController().signal
const common = { sampling: greedy, stop: [], client: 'app' }
const text = (content: string, more: Partial<AnswerRequest> = {}): AnswerRequest => ({
  prompt: new Prompt({ kind: 'text', text: content }),
  ...common,
  ...more,
})
const chat = (messages: readonly ChatMessage[]): AnswerRequest => ({ prompt: new Prompt({ kind: 'chat', messages }), ...common })
const rulesOf = (config: Partial<Parameters<typeof PrivacyConfig.parse>[0] & object>, logger = silentLogger()) =>
  new PromptRules(PrivacyConfig.parse(config), logger)

describe('rules by the words of prompts', () => {
  const rules = rulesOf({
    rules: ['medical=private:(?i)biopsy|diagnos', 'staff=local:\\bsalary of [A-Z]', 'names=private:Eleanora'],
  })
  const nameIn = async (request: AnswerRequest, mode: Parameters<typeof rules.appliedTo>[1] = 'auto') =>
    (await rules.appliedTo(request, mode, never))?.name

  it('apply where their pattern is found, and where the mode would show more', async () => {
    expect(await rules.appliedTo(text('The BIOPSY is late'), 'auto', never)).toMatchObject({ name: 'medical', mode: 'private' })
    expect(await nameIn(text('The weather is late'))).toBeUndefined()
    expect(await nameIn(text('The BIOPSY is late'), 'private')).toBeUndefined()
    expect(await nameIn(text('The BIOPSY is late', { isPrivate: true }), 'auto')).toBeUndefined()
    expect(await nameIn(text('The salary of Ann'), 'private')).toBe('staff')
    expect(await nameIn(text('The salary of Ann'), 'local')).toBeUndefined()
  })

  it('the strictest counts, whatever their order', async () => {
    expect(await nameIn(text('The biopsy, and the salary of Ann'))).toBe('staff')
  })

  it('read all of a conversation: every role, calls and their results, and functions', async () => {
    const user = { role: 'user', content: 'Go on' }
    expect(await nameIn(chat([{ role: 'system', content: 'You diagnose' }, user]))).toBe('medical')
    expect(await nameIn(chat([user, { role: 'tool', content: 'Eleanora', tool_call_id: '1' }]))).toBe('names')
    const call = { id: '1', type: 'function', function: { name: 'find', arguments: '{"name":"Eleanora"}' } }
    expect(await nameIn(chat([user, { role: 'assistant', content: null, tool_calls: [call] }]))).toBe('names')
    const tools = { tools: [], mustCall: false, onlyOne: false, body: { tools: [{ description: 'books a biopsy' }] } }
    expect(await nameIn({ ...chat([user]), tools })).toBe('medical')
    expect(await nameIn(chat([user]))).toBeUndefined()
  })

  it('take time that does not explode: the pattern that stops a backtracking engine is found to be absent', async () => {
    const evil = rulesOf({ rules: ['evil=local:(x+x+)+y', 'nested=local:^(([a-z])+.)+[A-Z]([a-z])+$'] })
    expect(await evil.appliedTo(text(`${'x'.repeat(200_000)} ${'a'.repeat(200_000)}`), 'auto', never)).toBeUndefined()
    expect(await evil.appliedTo(text('xxxy'), 'auto', never)).toMatchObject({ name: 'evil', mode: 'local' })
  })

  it('are refused where they cannot be read, with the reason', () => {
    const problem = (rule: string) => {
      try {
        readAgentConfig({ id: 'a', stateDir: '/tmp/none', privacy: { rules: [rule] } })
        return undefined
      } catch (error) {
        return (error as Error).message
      }
    }
    expect(problem('medical=private:biopsy')).toBeUndefined()
    expect(problem('medical')).toContain('must be like medical=private:(?i)biopsy')
    expect(problem('medical=cloud:biopsy')).toContain('private or local')
    expect(problem('medical=private:(?<=a)b')).toContain('has a pattern that RE2 cannot read')
    expect(problem('medical=private:(a)\\1')).toContain('RE2')
    expect(problem(`medical=private:${'a'.repeat(1_001)}`)).toContain('the limit is 1000')
  })
})

describe('a classifier', () => {
  const servers: AsyncDisposable[] = []
  afterEach(async () => {
    for (const server of servers.splice(0)) await server[Symbol.asyncDispose]()
  })
  async function classifier(listener: RequestListener) {
    const server = await onLoopback(createServer(listener))
    servers.push(server)
    return `http://127.0.0.1:${server.port}/classify`
  }
  const replying = (body: string, status = 200) => classifier((_, response) => void response.writeHead(status).end(body))
  const verdict = async (
    url: string,
    more: object = {},
    request = text('Where is Ann?'),
    mode: 'auto' | 'private' | 'local' = 'auto',
  ) => {
    const { logger, lines } = recordingLogger('warn')
    const applied = await rulesOf({ classifier: url, ...more }, logger).appliedTo(request, mode, never)
    return { applied, warnings: lines.length }
  }

  it('gets the text, and decides', async () => {
    const texts: string[] = []
    const url = await classifier((request, response) => {
      let body = ''
      request.on('data', (chunk) => {
        body += chunk
      })
      request.on('end', () => {
        const { text } = JSON.parse(body) as { text: string }
        texts.push(text)
        response.end(JSON.stringify({ allow: !text.includes('Ann') }))
      })
    })
    expect(await verdict(url)).toEqual({ applied: { name: 'classifier', mode: 'private' }, warnings: 0 })
    expect(await verdict(url, {}, text('Where is it?'))).toEqual({ applied: undefined, warnings: 0 })
    expect(texts).toEqual(['Where is Ann?', 'Where is it?'])
    // Nothing that a verdict could change.
    await verdict(url, {}, text('Ann'), 'private')
    expect(await verdict(url, { rules: ['names=local:Ann'] })).toMatchObject({ applied: { name: 'names' } })
    expect(texts).toHaveLength(2)
  })

  it('that fails in any way keeps the text here', async () => {
    const failed = { applied: { name: 'classifier failed', mode: 'private' }, warnings: 1 }
    for (const url of [
      await replying('no JSON'),
      await replying('{"allow":"yes"}'),
      await replying('{"allow":true}', 500),
      await replying(`{"allow":true,"more":"${'x'.repeat(100_000)}"}`),
      'http://127.0.0.1:1/classify',
    ])
      expect(await verdict(url)).toEqual(failed)
    const silent = await classifier(() => {})
    expect(await verdict(silent, { classifierTimeoutS: 0.05 })).toEqual(failed)
    const slow = await classifier((_, response) => void response.writeHead(200).write('{'))
    expect(await verdict(slow, { classifierTimeoutS: 0.05 })).toEqual(failed)
  })

  it('must be on this device', () => {
    for (const classifier of ['http://10.0.0.9/classify', 'http://127.0.0.1.example.org/', 'ftp://127.0.0.1/'])
      expect(() => PrivacyConfig.parse({ classifier })).toThrow()
    expect(PrivacyConfig.parse({ classifier: 'http://[::1]:9000/' }).classifierTimeoutS).toBe(1)
  })
})

describe('an agent with rules', () => {
  const world = shared(startAgentWorld)
  let agent: Agent
  beforeAll(async () => {
    const slm = await buildSlmBundle(world.dir)
    const privacy = { rules: ['medical=private:(?i)biopsy', 'staff=local:salary'] }
    agent = await world.startAgent({ id: 'ruled', slms: [slm], server: { at: 'bridge' }, dispatch: { mode: 'cloud' }, privacy })
    await linked(agent)
  })

  const asking = (content: string) => ({ messages: [{ role: 'user', content }] })
  const entries = async ({ apiUrl }: Agent = agent) => {
    const { disclosures } = (await (await fetch(`${apiUrl}/v1/disclosures?limit=1000`)).json()) as DisclosureList
    const ofClients = disclosures.filter(({ reason }) => reason !== 'job')
    return ofClients.filter(({ answer }) => answer === ofClients.at(-1)!.answer)
  }

  it.each(['cloud', 'auto', 'fast', 'cheap', 'sketch', undefined])(
    'shows no server what a rule names, in mode %s',
    async (mode) => {
      const brimFields = mode === undefined ? {} : { mode }
      const answer = await ask(agent, brimFields, asking('The biopsy of Ann'))
      expect(answer).toMatchObject({
        status: 200,
        report: { disco: { mode: 'private', rule: { name: 'medical', asked: mode ?? 'cloud' } } },
      })
      expect(await entries()).toMatchObject([{ content: 'states', mode: 'private', reason: 'rule', rule: 'medical' }])
      await ask(agent, brimFields, asking('The salary of Ann'))
      expect(await entries()).toMatchObject([{ content: 'counts', mode: 'local', reason: 'rule', rule: 'staff' }])
    },
  )

  it('leaves other prompts, and stricter modes, as they are', async () => {
    const { report } = await ask(agent, {}, asking('The weather'))
    expect(report.disco).toMatchObject({ mode: 'cloud' })
    expect(report.disco).not.toHaveProperty('rule')
    expect(await entries()).toMatchObject([{ content: 'text', reason: 'default', rule: null }])
    await ask(agent, { mode: 'local' }, asking('The biopsy of Ann'))
    expect(await entries()).toMatchObject([{ content: 'counts', mode: 'local', reason: 'client', rule: null }])
  })

  it('reads prompts of token ids, and streams', async () => {
    const ids = await ask(agent, { mode: 'private', token_ids: true }, { max_tokens: 1 })
    expect(ids.status).toBe(200)
    const { apiUrl } = agent
    const post = (body: object) => postJson(`${apiUrl}/v1/completions`, body)
    await (await post({ prompt: 'a salary', max_tokens: 3, stream: true, brim: { mode: 'cloud' } })).text()
    expect(await entries()).toMatchObject([{ mode: 'local', rule: 'staff' }])
  })

  it('is explained by the command line', async () => {
    const { io, err } = captureIo()
    const words = ['ask', 'The biopsy of Ann', '--max-tokens', '3', '--api', agent.apiUrl, '--mode', 'auto', '--explain']
    await brim(words, io)
    expect(err()).toContain("the rule medical of this device's owner: mode private in place of auto")
    expect(err()).toMatch(/\* HAT \(tiny-llama\) .* starts at once/)
    expect(err()).toMatch(/ bridge \(tiny-llama\) .* it would see the text, which is private/)
    const { io: table, out } = captureIo()
    await brim(['agent', 'disclosures', '--api', agent.apiUrl, '--lines', '1'], table)
    expect(out()).toMatch(/ private +rule medical +states of /)
  })

  it('says which rule keeps a device from answering', async () => {
    const bare = await world.startAgent({ id: 'bare', privacy: { rules: ['staff=local:salary'] } })
    expect(await ask(bare, { mode: 'private' }, asking('The salary of Ann'))).toMatchObject({
      status: 400,
      error: { message: expect.stringContaining("the rule staff of this device's owner"), param: 'brim.mode' },
    })
  })

  it('takes rules from its file', async () => {
    const file = join(world.dir, 'agent.yaml')
    writeFileSync(file, 'id: filed\nprivacy-rule:\n  - medical=private:(?i)biopsy\nprivacy-classifier: http://127.0.0.1:9000/\n')
    const { io, out } = captureIo({ env: {} })
    await brim(['agent', 'config', 'check', '--config', file], io)
    writeFileSync(file, 'id: filed\nprivacy-rule:\n  - medical=private:(biopsy\n')
    await expect(brim(['agent', 'config', 'check', '--config', file], io)).rejects.toMatchObject({
      code: 'CONFIG_INVALID',
      message: expect.stringContaining('RE2 cannot read'),
    })
    expect(out()).toBeDefined()
  })
})
