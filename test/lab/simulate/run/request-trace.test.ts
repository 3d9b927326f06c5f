import { describe, expect, it } from 'vitest'
import { parseRequestTrace } from '../../../../lab/simulate/traces/request-trace.ts'

describe('parseRequestTrace', () => {
  it("reads Azure's traces", () => {
    const text = [
      'TIMESTAMP,ContextTokens,GeneratedTokens',
      '2023-11-16 18:15:46.6805900,374,44',
      '2023-11-16 18:15:50.9951690,396,109',
    ].join('\n')
    expect(parseRequestTrace(text, 'azure.csv')).toEqual([
      { atMs: 0, promptTokens: 374, outputTokens: 44, sharedTokens: 0 },
      { atMs: 4_315, promptTokens: 396, outputTokens: 109, sharedTokens: 0 },
    ])
  })

  it("reads Mooncake's, with the blocks that prompts share", () => {
    const line = (timestamp: number, input: number, ids: number[]) =>
      JSON.stringify({ timestamp, input_length: input, output_length: 9, hash_ids: ids })
    const text = [line(500, 1_100, [0, 1, 2]), line(700, 1_500, [0, 1, 3]), line(900, 1_000, [0, 1])].join('\n')
    const shared = parseRequestTrace(text, 'mooncake.jsonl').map(({ atMs, sharedTokens }) => [atMs, sharedTokens])
    // The last one is known to its end; its last row is computed nevertheless.
    expect(shared).toEqual([
      [0, 0],
      [200, 1_024],
      [400, 999],
    ])
  })

  it("reads one's own, sorted by arrival", () => {
    const csv = 'arrival,prompt tokens,output tokens\n2.5,10,20\n1,30,40\n'
    const own = [
      { atMs: 0, promptTokens: 30, outputTokens: 40, sharedTokens: 0 },
      { atMs: 1_500, promptTokens: 10, outputTokens: 20, sharedTokens: 0 },
    ]
    expect(parseRequestTrace(csv, 'own.csv')).toEqual(own)
    const jsonl = '{"arrival":2.5,"prompt_tokens":10,"output_tokens":20}\n{"arrival":1,"promptTokens":30,"outputTokens":40}'
    expect(parseRequestTrace(jsonl, 'own.jsonl')).toEqual(own)
    for (const time of ['atMs', 'arrivalMs'])
      expect(parseRequestTrace(`${time},promptTokens,answerTokens\n2500,10,20\n1000,30,40`, 'own.csv')).toEqual(own)
  })

  it.each([
    ['a,b\n1,2', 'has no column with times'],
    ['arrival,prompt tokens,output tokens\n1,2,3\nx,2,3', 'line 3 has no time of arrival'],
    ['arrival,prompt tokens,output tokens\n1,,3', 'line 2 has no prompt tokens'],
    ['arrival,prompt tokens\n1,2', 'line 2 has no output tokens'],
    ['arrival,prompt tokens,output tokens\n1,-2,3', 'line 2 has no prompt tokens'],
    ['{"arrival":1}\n{', 'line 2 is no JSON object'],
    ['arrival,prompt tokens,output tokens\n', 'has no requests'],
    ['', 'has no column'],
  ])('names what is wrong with %j', (text, problem) => {
    expect(() => parseRequestTrace(text, 'bad.csv')).toThrow(`bad.csv: ${problem}`)
  })
})
