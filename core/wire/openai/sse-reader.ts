export interface SseOptions {
  readonly onComment?: (text: string) => void
  /** Called with the id of an event, if it has one, before its data. */
  readonly onId?: (id: string) => void
  /** Bound of what is held of an event that is not complete. */
  readonly maxChars?: number
}

/**
 * The `data` of each server-sent event of a response body, across packets; other fields are skipped. Ends with the stream.
 * @throws Error for a longer event than `maxChars`; what the body throws
 */
export async function* readSse(
  body: AsyncIterable<Uint8Array>,
  { onComment = () => {}, onId = () => {}, maxChars = Number.POSITIVE_INFINITY }: SseOptions = {},
): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const bytes of body) {
    rest += decoder.decode(bytes, { stream: true })
    const events = rest.split(/\r?\n\r?\n/)
    rest = events.pop() ?? ''
    if (rest.length > maxChars) throw new Error(`an event has more than ${maxChars} characters`)
    for (const event of events) {
      const lines = event.split(/\r?\n/)
      for (const line of lines) {
        if (line.startsWith(':')) onComment(line.slice(1).trim())
        if (line.startsWith('id:')) onId(line.slice(3).trim())
      }
      const data = lines.filter((line) => line.startsWith('data:')).map((line) => line.slice(5).replace(/^ /, ''))
      if (data.length > 0) yield data.join('\n')
    }
  }
}
