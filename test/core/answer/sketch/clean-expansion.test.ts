import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { cleanExpansion } from '../../../../core/answer/sketch/clean-expansion.ts'

const line = 'water tomatoes every morning'
const wanted = 'Water your tomatoes every morning, before the sun is hot.'

describe('an expansion', () => {
  it.each([
    ['as it is', wanted],
    ['with space around it', `\n  ${wanted}\n\n`],
    ['after the line itself', `${line}\n${wanted}`],
    ['after the line and a colon', `${line}: ${wanted}`],
    ['after the line in other case', `Water tomatoes every morning – ${wanted}`],
    ['after an introduction', `Sure! Here is the expanded line:\n\n${wanted}`],
    ['after an introduction in the same line', `Here is the full sentence: "${wanted}"`],
    ['numbered', `2. ${wanted}`],
    ['labelled', `Line 2: ${wanted}`],
    ['as a bullet', `- ${wanted}`],
    ['in a code fence', `\`\`\`\n${wanted}\n\`\`\``],
    ['after reasoning', `<think>They need water.\n</think>\n${wanted}`],
    ['before the next lines', `${wanted}\nPick them when they are red.\nEat them with salt.`],
    ['after the lines before it', `Plant the seeds in warm earth.\n${wanted}`],
  ])('is taken from a reply that has it %s', (_, reply) => {
    expect(cleanExpansion(reply, line).text).toBe(wanted)
  })

  it('is taken from a whole answer', () => {
    const next = 'Pour it on the earth, not on the leaves.'
    const reply = `You need seeds. Mr. Green sells them. Plant them in May. ${wanted} ${next} Pick them in August.`
    expect(cleanExpansion(reply, line).text).toBe(`${wanted} ${next}`)
  })

  it('may have up to three sentences', () => {
    const reply = 'Water your tomatoes. Do it every morning. They will be glad!'
    expect(cleanExpansion(reply, line).text).toBe(reply)
  })

  it('keeps a number and quotation marks that belong to it', () => {
    expect(cleanExpansion('1. FC Köln won the cup.', '1 FC Köln won cup').text).toBe('1. FC Köln won the cup.')
    expect(cleanExpansion('"Come here!" said the wolf.', 'Come here wolf').text).toBe('"Come here!" said the wolf.')
  })

  it('is the line where the model wrote nothing else', () => {
    expect(cleanExpansion('Yes.', 'Yes').text).toBe('Yes.')
    expect(cleanExpansion('Water tomatoes every morning.', line).text).toBe('Water tomatoes every morning.')
  })

  it('is empty where the model wrote no word', () => {
    expect(cleanExpansion('', line).text).toBe('')
    expect(cleanExpansion('\n- \n***', line).text).toBe('')
    expect(cleanExpansion('<think>What could I', line).text).toBe('')
    expect(cleanExpansion('Sure! Here is the expanded line:', line).text).toBe('')
  })

  it('has only characters of the reply, in order, and is clean already', () => {
    const part = fc.constantFrom(wanted, line, '\n', ' ', '1. ', '- ', 'Sure!', ':', 'Eat them. ', '```', '"', '💧', 'Dr. No. ')
    fc.assert(
      fc.property(fc.array(part, { maxLength: 20 }), (parts) => {
        const reply = parts.join('')
        const text = cleanExpansion(reply, line).text
        expect(text).toBe(text.trim())
        expect(reply.replace(/\s/g, '')).toContain(text.replace(/\s/g, ''))
      }),
    )
  })

  it('of a hostile megabyte takes no longer than of a sentence', () => {
    expect(cleanExpansion('. Ab'.repeat(300_000), line).text.length).toBeLessThan(20)
    expect(cleanExpansion(`${line}:`.repeat(40_000), line).text.length).toBeLessThan(20_000)
    expect(cleanExpansion('<think>'.repeat(150_000), line).text).toBe('')
  })
})
