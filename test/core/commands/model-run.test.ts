import { cpSync, rmSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { buildBundle } from '../../../core/model/bundle/build.ts'
import { openBundle } from '../../../core/model/engine/open-bundle.ts'
import { referenceAnswer } from '../../../core/model/engine/reference.ts'
import { loadTokenizer } from '../../../core/model/text/tokenizer.ts'
import { fixtureDir, type OracleCase, readOracle } from '../../oracle/fixtures.ts'
import { brim } from '../../support/brim.ts'
import { captureIo } from '../../support/captured-io.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const oracle = readOracle('qwen2').cases[1] as OracleCase

const dir = shared(tempDir)
let bundle: string
beforeAll(async () => {
  bundle = `${dir.path}/qwen2`
  await buildBundle({ checkpoint: fixtureDir('qwen2'), out: bundle, format: 'fp32', split: 1 })
})

async function modelRun(args: string[], options: Parameters<typeof captureIo>[0] = {}, folder = bundle) {
  const { io, out, err } = captureIo(options)
  await brim(['model', 'run', folder, '--threads', '1', ...args], io)
  return { out: out(), err: err() }
}

describe('brim model run', () => {
  it('prints one JSON document with text, tokens and figures', async () => {
    const { out, err } = await modelRun(['--prompt-ids', oracle.promptIds.join(','), '--max-tokens', '64', '--json'])
    const tokenizer = await loadTokenizer(fixtureDir('qwen2'))
    const { text, ...figures } = JSON.parse(out)
    expect(figures).toEqual({
      finishReason: 'length',
      tokenIds: oracle.continuation,
      promptTokens: oracle.promptIds.length,
      ttftMs: expect.any(Number),
      tokensPerS: expect.any(Number),
      states: 'unrounded',
      computing: { provider: 'cpu', reason: 'asked for' },
    })
    expect(tokenizer.decode(oracle.continuation, { skipSpecialTokens: true }).startsWith(text)).toBe(true)
    expect(err).toBe('')
  })

  it('prints the text alone on stdout and the figures on stderr', async () => {
    const args = ['--prompt', 'What is a lamp?', '--raw', '--max-tokens', '64']
    const { out, err } = await modelRun(args)
    const { text } = JSON.parse((await modelRun([...args, '--json'])).out)
    expect(out).toBe(text.endsWith('\n') ? text : `${text}\n`)
    expect(err).toMatch(
      /^64 tokens for a prompt of \d+ · [\d.]+ tokens\/s · first after \d+ ms · ended: length · states unrounded · cpu: asked for\n$/,
    )
  })

  it('computes the unrounded model, and with --reference the one rounded at the cuts', async () => {
    const sampling = { temperature: 1.5, topK: 0, topP: 1, seed: 56 }
    const args = [
      '--prompt-ids',
      oracle.promptIds.join(','),
      '--temperature',
      '1.5',
      '--seed',
      '56',
      '--max-tokens',
      '60',
      '--json',
    ]
    const model = await openBundle(bundle, { parts: 'chain', threads: 1 })
    const { eos } = model.manifest.tokens
    // One token per step, while the command computes the prompt in one.
    const answers = (['full', 'half'] as const).map((cuts) =>
      referenceAnswer(model.chain({ cuts }), oracle.promptIds, sampling, 60, eos),
    )
    const [unrounded, rounded] = [await answers[0], await answers[1]]
    expect(rounded).not.toEqual(unrounded)
    expect(JSON.parse((await modelRun(args)).out)).toMatchObject({ tokenIds: unrounded, states: 'unrounded' })
    expect(JSON.parse((await modelRun([...args, '--reference'])).out)).toMatchObject({ tokenIds: rounded, states: 'rounded' })
    await model.release()
  })

  it('prints token ids where the bundle has no tokenizer', async () => {
    const mute = `${dir.path}/mute`
    cpSync(bundle, mute, { recursive: true })
    rmSync(`${mute}/tokenizer`, { recursive: true })
    const { out } = await modelRun(['--prompt-ids', oracle.promptIds.join(','), '--max-tokens', '4'], {}, mute)
    expect(out).toBe(`${oracle.continuation.slice(0, 4)}\n`)
  })

  it('puts the prompt into the chat template unless --raw', async () => {
    const promptTokens = async (...args: string[]) =>
      JSON.parse((await modelRun(['--prompt', 'Hello', '--max-tokens', '1', '--json', ...args])).out).promptTokens
    const tokenizer = await loadTokenizer(fixtureDir('qwen2'))
    const system = 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.'
    const chat = `<|im_start|>system\n${system}<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n`
    expect(await promptTokens()).toBe(tokenizer.encode(chat).length)
    expect(await promptTokens('--raw')).toBe(tokenizer.encode('Hello').length)
  })

  it('applies sampling settings and stop strings', async () => {
    const args = [
      '--prompt',
      'Hello',
      '--raw',
      '--temperature',
      '0.8',
      '--top-k',
      '20',
      '--top-p',
      '0.9',
      '--max-tokens',
      '48',
      '--json',
    ]
    const first = JSON.parse((await modelRun([...args, '--seed', '4'])).out)
    expect(JSON.parse((await modelRun([...args, '--seed', '4'])).out).tokenIds).toEqual(first.tokenIds)
    expect(JSON.parse((await modelRun([...args, '--seed', '5'])).out).tokenIds).not.toEqual(first.tokenIds)
    const stop = first.text.slice(8, 11)
    const stopped = JSON.parse((await modelRun([...args, '--seed', '4', '--stop', stop])).out)
    expect(stopped.text).toBe(first.text.slice(0, first.text.indexOf(stop)))
    expect(stopped.finishReason).toBe('stop')
  })

  it('ends cleanly when it is interrupted while it answers', async () => {
    const cancel = new AbortController()
    const { io, out, err } = captureIo({ signal: cancel.signal })
    const write = (text: string) => {
      io.write(text)
      cancel.abort()
    }
    await brim(['model', 'run', bundle, '--threads', '1', '--prompt', 'Hello', '--raw', '--max-tokens', '64'], { ...io, write })
    expect(out()).not.toBe('')
    expect(err()).toMatch(/^\d tokens .* ended: canceled ·/m)
  })

  it.each([
    [['--prompt-ids', '1,x'], 'USAGE'],
    [[], 'USAGE'],
    [['--prompt', 'a', '--top-p', '2'], 'REQUEST_INVALID'],
    [['--prompt-ids', '1,2', '--max-tokens', '600'], 'CONTEXT_OVERFLOW'],
    [['--prompt', 'a', '--threads', '0'], 'USAGE'],
    [['--prompt', 'a', '--threads', '1000000'], 'USAGE'],
  ])('refuses %j', async (args, code) => {
    await expect(modelRun(args)).rejects.toMatchObject({ code })
  })
})
