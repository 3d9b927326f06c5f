import type { TestBridge } from './bridge.ts'
import { postJson } from './post-json.ts'

/** Short answers of a bridge, one after the other. */
export async function recordRequests({ httpUrl }: Pick<TestBridge, 'httpUrl'>, count: number): Promise<void> {
  for (let at = 0; at < count; at += 1) {
    const response = await postJson(`${httpUrl}/v1/completions`, { prompt: `What is lamp number ${at}?`, max_tokens: 6 })
    if (!response.ok) throw new Error(await response.text())
    await response.arrayBuffer()
  }
}
