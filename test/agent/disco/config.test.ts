import { describe, expect, it } from 'vitest'
import { type AgentSettings, readAgentConfig } from '../../../agent/config.ts'
import { costsOf } from '../../../agent/disco/config.ts'

const read = (settings: Partial<AgentSettings>) => readAgentConfig({ id: 'phone', stateDir: '/state', ...settings })

describe('the settings of dispatch', () => {
  it('are private unless the owner says otherwise', () => {
    const { dispatch, server } = read({})
    expect(dispatch).toEqual({
      mode: 'private',
      fallback: 'none',
      constrained: 'auto',
      share: 0.5,
      autoPatienceS: 10,
      tokensPerS: 5,
    })
    expect(server).toBeUndefined()
  })

  it('name the bridge, or a server by its URL and model', () => {
    expect(read({ server: { at: 'bridge' } }).server).toMatchObject({ at: 'bridge', continues: false })
    const url = { at: 'http://127.0.0.1:8000', model: 'llama' }
    expect(read({ server: url }).server).toMatchObject({ at: 'http://127.0.0.1:8000/v1', model: 'llama' })
    expect(() => read({ server: { at: url.at } })).toThrow(/server\.model: is missing/)
  })

  it('keep what is for the URL of a server from a bridge, and need a server for the mode cloud', () => {
    expect(() => read({ server: { at: 'bridge', model: 'llama' } })).toThrow(/server\.model: is for the URL of a server/)
    expect(() => read({ server: { at: 'bridge', keyFile: 'key' } })).toThrow(/server\.keyFile: is for the URL/)
    expect(() => read({ server: { at: 'bridge', continues: true } })).toThrow(/server\.continues: is for the URL/)
    expect(() => read({ dispatch: { mode: 'cloud' } })).toThrow(/dispatch\.mode: cloud needs a server/)
    expect(read({ dispatch: { mode: 'cloud' }, server: { at: 'bridge' } }).dispatch.mode).toBe('cloud')
  })

  it.each(['ftp://a', 'http://me:secret@a', 'somewhere'])('reject %s as a server', (at) => {
    expect(() => read({ server: { at, model: 'llama' } })).toThrow(/server\.at: must be "bridge", or a URL/)
  })

  it('take 0 or a rate of a reader', () => {
    expect(read({ dispatch: { tokensPerS: 0 } }).dispatch.tokensPerS).toBe(0)
    expect(() => read({ dispatch: { tokensPerS: 1e6 } })).toThrow(/must be 0, or a number/)
  })

  it('take a price per million tokens', () => {
    const price = read({ server: { at: 'bridge', price: '0.15/0.60' } }).server?.price
    expect(costsOf(price)?.prompt).toBeCloseTo(0.15e-6)
    expect(costsOf(price)?.output).toBeCloseTo(0.6e-6)
    expect(costsOf(undefined)).toBeUndefined()
    expect(() => read({ server: { at: 'bridge', price: 'cheap' } })).toThrow(/must be like/)
  })

  it('limit dollars only where the price is known', () => {
    const budget = { dollars: 1 }
    expect(read({ budget, server: { at: 'bridge', price: '1/2' } }).budget).toMatchObject({ dollars: 1, windowH: 24 })
    expect(() => read({ budget, server: { at: 'bridge' } })).toThrow(/budget\.dollars: needs the price of the server/)
  })
})
