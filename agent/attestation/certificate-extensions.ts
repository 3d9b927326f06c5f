/** The contents of the DER values that follow each other in these bytes, with their tags. @throws RangeError if they are none */
function* derValues(bytes: Buffer = Buffer.alloc(0)): Generator<{ tag: number; content: Buffer }, undefined> {
  for (let at = 0; at < bytes.length; ) {
    const short = bytes.readUInt8(at + 1)
    const lengthBytes = short < 0x80 ? 0 : short & 0x7f
    const start = at + 2 + lengthBytes
    const end = start + (lengthBytes === 0 ? short : bytes.readUIntBE(at + 2, lengthBytes))
    yield { tag: bytes.readUInt8(at), content: bytes.subarray(start, end) }
    at = end
  }
}

const first = (bytes: Buffer | undefined) => derValues(bytes).next().value?.content

/** The extensions of a certificate by their ids, both in DER (RFC 5280 §4.1): Node shows only those that it knows. @throws RangeError if it is no certificate */
export function extensionsOf(certificate: Buffer): ReadonlyMap<string, Buffer> {
  const body = [...derValues(first(first(certificate)))]
  const extensions = [...derValues(first(body.find(({ tag }) => tag === 0xa3)?.content))]
  return new Map(
    extensions.map(({ content }) => {
      const parts = [...derValues(content)].map((part) => part.content)
      return [parts[0]?.toString('hex') ?? '', parts.at(-1) ?? Buffer.alloc(0)]
    }),
  )
}
